//! Marks of rare branches. A branch that few runs take begins with `mark!("why it is there")`, and a test runs it inside
//! of `must_hit`. A build without tests has neither.

/// Marks a branch that is rarely taken by the reason why it is there.
macro_rules! mark {
    ($reason:literal) => {
        #[cfg(test)]
        $crate::mark::hit($reason);
    };
}
pub(crate) use mark;

#[cfg(test)]
thread_local! {
    /// The marks that tests on this thread have come by.
    static HIT: std::cell::RefCell<Vec<&'static str>> = const { std::cell::RefCell::new(Vec::new()) };
}

#[cfg(test)]
pub(crate) fn hit(reason: &'static str) {
    HIT.with_borrow_mut(|hit| hit.push(reason));
}

/// Runs a part of a test again and again, at most for a minute, until this thread has come by the mark. Panics if it has
/// not. A test that depends on nobody else comes by it at the first time.
#[cfg(test)]
pub(crate) fn must_hit(reason: &str, mut test: impl FnMut()) {
    let begun = std::time::Instant::now();
    HIT.with_borrow_mut(|hit| hit.retain(|it| *it != reason));
    while HIT.with_borrow(|hit| !hit.contains(&reason)) {
        assert!(begun.elapsed().as_secs() < 60, "the branch is not taken: {reason}");
        test();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::{fs, iter};

    /// Returns the reasons that stand behind `call` in all sources, in ascending order.
    fn reasons(folder: &Path, call: &str) -> Vec<String> {
        let mut found: Vec<_> = Vec::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                found.extend(reasons(&path, call));
            } else if !path.ends_with("src/mark.rs") {
                let code = fs::read_to_string(&path).unwrap_or_default();
                found.extend(code.split(call).skip(1).filter_map(|rest| Some(rest.split('"').nth(1)?.to_owned())));
            }
        }
        found.sort();
        found
    }

    #[test]
    fn each_mark_stands_once_and_a_test_must_hit_it() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let [marks, tests] = ["mark!(", "must_hit("].map(|call| reasons(&sources, call));
        assert!(!marks.is_empty() && marks.is_sorted_by(|one, other| one < other), "{marks:?}");
        let untested: Vec<_> = marks.iter().filter(|mark| !tests.contains(mark)).collect();
        assert_eq!(untested, iter::empty::<&String>().collect::<Vec<_>>(), "no test must hit them");
    }
}
