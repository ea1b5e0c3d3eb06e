//! The program: it parses the arguments, runs the command, and turns the result into an exit status.

use adapter_gateway::cli::{Arguments, Command, EarlyExit};
use adapter_gateway::commands::{self, CommandFailure};
use adapter_gateway::gateway::Failure;
use adapter_gateway::sys::log;
use adapter_gateway::sys::process;

/// The exit status of a program that did what it was asked to do.
const SUCCESS: u8 = 0;

fn main() {
    process::keep_freed_memory();
    log::log_panics();
    let status = run();
    log::finish();
    process::exit_now(status);
}

/// Runs the program, and returns its exit status.
fn run() -> u8 {
    let command = match Arguments::parse(std::env::args_os().skip(1)) {
        Ok(command) => command,
        Err(EarlyExit::Help(text)) => return print(&text),
        Err(EarlyExit::Usage(text)) => return fail(&Failure::Usage(text).into()),
    };
    let result = match command {
        Command::Serve(arguments) => commands::serve::run(&arguments).map_err(CommandFailure::from),
        Command::Demo(arguments) => commands::demo::run(&arguments).map_err(CommandFailure::from),
        Command::Listen(arguments) => commands::listen::run(arguments),
        Command::Send(arguments) => commands::send::run(&arguments),
    };
    match result {
        Ok(()) => SUCCESS,
        Err(failure) => fail(&failure),
    }
}

fn print(text: &str) -> u8 {
    use std::io::Write;
    // If the reader has closed the pipe, the rest of the text is not wanted.
    let _ = writeln!(std::io::stdout(), "{}", text.trim_end());
    SUCCESS
}

fn fail(failure: &CommandFailure) -> u8 {
    log::error(format_args!("{failure}"));
    failure.exit_status()
}
