//! The process that started this one (`--watch-parent`).

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getpid, getppid, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::process::session;

/// The end of the parent process, whoever else holds its pipes.
pub(crate) struct ParentEnd {
    /// A descriptor of the parent, which is readable when the parent has ended; `None` if it had ended before.
    parent: Option<AsyncFd<OwnedFd>>,
}

impl ParentEnd {
    /// Begins to watch the parent, on the runtime that this is called in.
    ///
    /// # Errors
    /// Returns an error if the kernel does not allow it, or if the parent is in another PID namespace.
    pub(crate) fn watch() -> io::Result<Self> {
        let parent = getppid().ok_or_else(|| io::Error::other("the parent process is in another PID namespace"))?;
        let pidfd = match pidfd_open(parent, PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(Errno::SRCH) => return Ok(Self { parent: None }),
            Err(error) => return Err(error.into()),
        };
        // If the parent ended before the descriptor was open, its number may belong to another process now.
        if getppid() != Some(parent) || is_adoptive(parent) {
            return Ok(Self { parent: None });
        }
        #[allow(deprecated, reason = "its unsafe successor asks for a promise that every owned descriptor keeps")]
        let parent = AsyncFd::with_interest(pidfd, Interest::READABLE)?;
        Ok(Self { parent: Some(parent) })
    }

    /// Waits until the parent has ended. Cancel-safe.
    pub(crate) async fn reached(&self) {
        if let Some(parent) = &self.parent {
            // An error means that the runtime ends, and with it the task that waits here.
            let _ = parent.readable().await;
        }
    }
}

/// Returns whether the process that started this one had ended before this one could look, so that another process
/// adopted it. A process inherits the session of the one that starts it, and can leave it only by making a session of its
/// own. So an adoptive parent is recognised by its session, unless it happens to be that of the first parent too.
fn is_adoptive(parent: Pid) -> bool {
    let (own, pid) = (session(None), getpid().as_raw_pid());
    own.is_some_and(|own| own != pid && session(Some(parent)).is_some_and(|parents| parents != own))
}
