//! A folder with one file on a file system of this test (FUSE), which answers or does not, and tells of no change.

use std::sync::Condvar;

use super::*;

/// The node of the file. That of the folder is 1.
const FILE: u64 = 2;
/// The operations that are answered (fuse(4)). The kernel does without the others.
const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const STATFS: u32 = 17;
const RELEASE: u32 = 18;
const INIT: u32 = 26;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;
const NOT_FOUND: i32 = -libc::ENOENT;
const NOT_IMPLEMENTED: i32 = -libc::ENOSYS;

#[derive(Default)]
struct Content {
    text: String,
    hangs: bool,
    /// Counts the changes, as the file's time of change.
    version: u64,
}

/// The folder. The gateway alone sees it, in a mount namespace of its own.
pub(crate) struct HangingFolder {
    device: File,
    content: Arc<(Mutex<Content>, Condvar)>,
}

impl HangingFolder {
    /// Makes the folder with a settings file of this text. `None` where that is not possible, which is said.
    pub(crate) fn with(text: &str, hangs: bool) -> Option<Self> {
        if !is_possible("test $(id -u) = 0 && test -w /dev/fuse && unshare --mount true") {
            return None;
        }
        let device = OpenOptions::new().read(true).write(true).open("/dev/fuse").unwrap();
        let content = Arc::<(Mutex<Content>, Condvar)>::default();
        let folder = Self { device: device.try_clone().unwrap(), content: Arc::clone(&content) };
        folder.write(text);
        folder.hang(hangs);
        thread::spawn(move || serve(&device, &content));
        Some(folder)
    }

    /// Mounts the folder here, where the gateway sees it.
    pub(crate) fn mounted_at(&self, folder: &Path, builder: Builder) -> Builder {
        let folder = folder.display();
        builder.stdin(self.device.try_clone().unwrap()).after(&format!(
            "exec unshare --mount sh -c 'mount -i -t fuse -o fd=0,rootmode=40000,user_id=0,group_id=0 test {folder} && \
             exec \"$@\" </dev/null' sh \"$@\""
        ))
    }

    pub(crate) fn write(&self, text: &str) {
        self.change(|content| text.clone_into(&mut content.text));
    }

    /// From now on no operation is answered, or each again.
    pub(crate) fn hang(&self, hangs: bool) {
        self.change(|content| content.hangs = hangs);
    }

    fn change(&self, change: impl FnOnce(&mut Content)) {
        let mut content = self.content.0.lock().unwrap();
        change(&mut content);
        content.version += 1;
        self.content.1.notify_all();
    }
}

impl Drop for HangingFolder {
    fn drop(&mut self) {
        self.hang(false);
    }
}

fn serve(device: &File, (content, changed): &(Mutex<Content>, Condvar)) {
    let mut request = vec![0; 1 << 20];
    let read = |request: &mut Vec<u8>| {
        // A process whose request was read cannot be killed before that is answered.
        while !is_readable_within(device, PATIENCE) {}
        drop(changed.wait_while(content.lock().unwrap(), |content| content.hangs).unwrap());
        eventually("the folder is mounted", || match (&mut &*device).read(request) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => None,
            read => Some(read),
        })
    };
    while let Ok(bytes) = read(&mut request) {
        let content = content.lock().unwrap();
        let number = |at: usize| u32::from_ne_bytes(request[at..at + 4].try_into().unwrap());
        let long = |at: usize| u64::from_ne_bytes(request[at..at + 8].try_into().unwrap());
        let (operation, unique, node) = (number(4), long(8), long(16));
        let answer = match operation {
            FORGET | INTERRUPT | BATCH_FORGET => continue,
            INIT => Ok(numbers(&[7, 31, 0, 0, 0, 1 << 16, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0])),
            LOOKUP if request[40..bytes].starts_with(b"user_settings.py\0") => {
                Ok([numbers(&[FILE as u32, 0, 0, 0, 0, 0, 0, 0, 0, 0]), attributes(FILE, &content)].concat())
            }
            LOOKUP => Err(NOT_FOUND),
            GETATTR => Ok([numbers(&[0; 4]), attributes(node, &content)].concat()),
            // Without a cache in the kernel (FOPEN_DIRECT_IO).
            OPEN => Ok(numbers(&[0, 0, 1, 0])),
            READ => {
                let text = content.text.bytes().skip(long(48) as usize);
                Ok(text.take(number(56) as usize).collect())
            }
            STATFS => Ok(numbers(&[0; 20])),
            RELEASE => Ok(Vec::new()),
            _ => Err(NOT_IMPLEMENTED),
        };
        let (error, body) = answer.map_or_else(|error| (error, Vec::new()), |body| (0, body));
        let mut reply = numbers(&[16 + body.len() as u32, error as u32]);
        reply.extend(unique.to_ne_bytes());
        reply.extend(body);
        // The process that asked may have been killed.
        let _ = (&mut &*device).write(&reply);
    }
}

/// `fuse_attr`: those of a file or of the folder, which belong to root.
fn attributes(node: u64, content: &Content) -> Vec<u8> {
    let (mode, size) = if node == FILE { (0o100_600, content.text.len() as u32) } else { (0o40_700, 0) };
    let version = content.version as u32;
    numbers(&[node as u32, 0, size, 0, 1, 0, version, 0, version, 0, version, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0])
}

fn numbers(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}
