//! | file | the question it answers |
//! |---|---|
//! | `file` | is the settings file found and read, and is an error of its own named? |
//! | `cases` | what does each kind of settings file mean? |
//! | `compared_with_python` | does Python itself say the same? |
//! | `edit` | is a file switched on and off, and nothing else of it changed? |

mod cases;
mod compared_with_python;
mod edit;
mod file;
