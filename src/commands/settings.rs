//! What can be set, by module arguments and by `CONFIG`.

use crate::server::{Choice, ChoiceSpec};

/// How a new key of `RL.SLIDING` is stored. What exists goes on as it is.
static SLIDING_STORAGE: Choice = Choice::new(0);
/// Whether `RL.THROTTLE` is also `CL.THROTTLE`. Read when the module is loaded.
static CL_THROTTLE: Choice = Choice::new(0);

/// What module arguments and `CONFIG SET rl.*` can set.
pub const CHANGEABLE: [ChoiceSpec; 1] = [ChoiceSpec {
    name: c"sliding-storage",
    words: &[c"compact", c"sorted-set"],
    choice: &SLIDING_STORAGE,
}];

/// What only module arguments can set.
pub const AT_LOAD: [ChoiceSpec; 1] = [ChoiceSpec {
    name: c"cl-throttle",
    words: &[c"no", c"yes"],
    choice: &CL_THROTTLE,
}];

/// Whether a new log goes into a sorted set.
pub fn stores_in_sorted_sets() -> bool {
    SLIDING_STORAGE.get() == 1
}

/// Whether `CL.THROTTLE` is wanted.
pub fn has_cl_throttle() -> bool {
    CL_THROTTLE.get() == 1
}

/// Takes over module arguments, which are pairs of a name and a value. On failure says what would be right.
pub fn read(arguments: &[Vec<u8>]) -> Result<(), &'static str> {
    const RIGHT: &str =
        "module arguments are pairs: sliding-storage compact|sorted-set, cl-throttle yes|no";
    let (pairs, rest) = arguments.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(RIGHT);
    }
    for [name, value] in pairs {
        let mut settings = CHANGEABLE.iter().chain(&AT_LOAD);
        let is_set = settings
            .find(|setting| setting.name.to_bytes().eq_ignore_ascii_case(name))
            .is_some_and(|setting| setting.set(value));
        if !is_set {
            return Err(RIGHT);
        }
    }
    Ok(())
}
