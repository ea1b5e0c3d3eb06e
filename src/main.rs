//! The program: arguments in, an exit status out.

use std::process::ExitCode;

use adapter_gateway::cli::{Arguments, Command, Exit};
use adapter_gateway::commands;
use adapter_gateway::gateway::exit::Failure;
use adapter_gateway::log::log;

fn main() -> ExitCode {
    adapter_gateway::process::keep_freed_memory();
    let command = match Arguments::parse(std::env::args_os().skip(1)) {
        Ok(command) => command,
        Err(Exit::Asked(text)) => return print(&text),
        Err(Exit::Usage(text)) => return fail(&Failure::Usage(text)),
    };
    let ended = match command {
        Command::Serve(arguments) => commands::serve::run(&arguments),
        Command::Listen(arguments) => commands::listen::run(arguments),
        Command::Demo(arguments) => commands::demo::run(&arguments),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => fail(&failure),
    }
}

fn print(text: &str) -> ExitCode {
    use std::io::Write;
    // Whoever closed the pipe has seen enough.
    let _ = writeln!(std::io::stdout(), "{}", text.trim_end());
    ExitCode::SUCCESS
}

fn fail(failure: &Failure) -> ExitCode {
    log(format_args!("{failure}"));
    failure.into()
}
