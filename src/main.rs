//! The program: it parses the arguments, runs the command, and turns the result into an exit status.

use std::io::stdout;

use adapter_gateway::cli::{Arguments, Command, EarlyExit};
use adapter_gateway::commands;
use adapter_gateway::gateway::Failure;
use adapter_gateway::sys::writer::write_all;
use adapter_gateway::sys::{log, process};

fn main() {
    process::unblock_signals();
    process::ignore_signals_of_files();
    process::keep_freed_memory();
    log::log_panics();
    let status = match run() {
        Ok(()) => 0,
        Err(failure) => {
            log::error(format_args!("{failure}"));
            failure.status
        }
    };
    log::finish();
    process::exit_now(status);
}

fn run() -> Result<(), Failure> {
    match Arguments::parse(std::env::args_os().skip(1)) {
        Ok(Command::Serve(arguments)) => commands::serve::run(&arguments),
        Ok(Command::Demo(arguments)) => commands::demo::run(&arguments),
        Ok(Command::Listen(arguments)) => commands::listen::run(arguments),
        Ok(Command::Send(arguments)) => commands::send::run(&arguments),
        Ok(Command::Enable(arguments)) => commands::enable::run(arguments.settings.as_ref(), true),
        Ok(Command::Disable(arguments)) => commands::enable::run(arguments.settings.as_ref(), false),
        Err(EarlyExit::Usage(text)) => Err(Failure::new(Failure::USAGE, text)),
        Err(EarlyExit::Help(text)) => {
            Failure::of_output(write_all(&stdout(), format!("{}\n", text.trim_end()).as_bytes()))
        }
    }
}
