//! What `COMMAND INFO`, `COMMAND DOCS` and `COMMAND GETKEYS` say of a command, where the server can be told (from 7.0 on).

use std::ffi::{CStr, c_int};
use std::mem::size_of;
use std::ptr;

use redis_module::raw;

/// An argument.
#[derive(Clone, Copy)]
pub struct Arg {
    /// As the syntax shows it.
    pub name: &'static CStr,
    /// What it is.
    pub kind: ArgKind,
    /// The word before it, like `COST`.
    pub token: Option<&'static CStr>,
    /// Whether it may be left out.
    pub optional: bool,
    /// Whether it may be given several times.
    pub multiple: bool,
}

impl Arg {
    /// One that has to be given, once.
    pub const fn new(name: &'static CStr, kind: ArgKind) -> Self {
        Self {
            name,
            kind,
            token: None,
            optional: false,
            multiple: false,
        }
    }

    /// One that may be given, at its place.
    pub const fn optional(name: &'static CStr, kind: ArgKind) -> Self {
        Self {
            optional: true,
            ..Self::new(name, kind)
        }
    }

    /// One that has to be given, and may be again.
    pub const fn repeated(name: &'static CStr, kind: ArgKind) -> Self {
        Self {
            multiple: true,
            ..Self::new(name, kind)
        }
    }

    /// One that may be given, behind the word `token`.
    pub const fn option(name: &'static CStr, kind: ArgKind, token: &'static CStr) -> Self {
        Self {
            token: Some(token),
            optional: true,
            ..Self::new(name, kind)
        }
    }
}

/// What an argument is.
#[derive(Clone, Copy)]
pub enum ArgKind {
    /// The key.
    Key,
    /// A key that no place tells.
    FoundKey,
    /// One of these words.
    Word(&'static [&'static CStr]),
    /// An integer.
    Integer,
    /// A text: a duration or a rate.
    Text,
    /// A point of time.
    UnixTime,
    /// Nothing but the word before it.
    Flag,
    /// Several arguments together.
    Block(&'static [Arg]),
}

/// Which arguments of a command are keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// The one at this place, which the command reads and updates.
    Updated(c_int),
    /// The one at this place, which the command only reads.
    Read(c_int),
    /// Those that [`Command::FOR_EACH_KEY`](super::Command::FOR_EACH_KEY) finds.
    Found,
    /// None.
    None,
}

/// A command's documentation.
#[derive(Clone, Copy)]
pub struct Docs {
    /// In a sentence.
    pub summary: &'static CStr,
    /// In O notation, with what n is.
    pub complexity: &'static CStr,
    /// The first version with it.
    pub since: &'static CStr,
    /// All arguments behind the command's name.
    pub args: &'static [Arg],
}

/// The arguments as the server takes them, with the lists inside that they point to.
struct RawArgs {
    list: Vec<raw::RedisModuleCommandArg>,
    _inner: Vec<RawArgs>,
}

impl RawArgs {
    fn of(args: &[Arg]) -> Self {
        let mut list = Vec::with_capacity(args.len() + 1);
        let mut inner = Vec::new();
        for arg in args {
            let mut subargs = ptr::null_mut();
            let (kind, key_spec) = match arg.kind {
                ArgKind::Key => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY, 0),
                ArgKind::FoundKey => (
                    raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING,
                    -1,
                ),
                ArgKind::Word(words) => {
                    let mut list: Vec<_> = words
                        .iter()
                        .map(|word| raw::RedisModuleCommandArg {
                            name: word.as_ptr(),
                            type_: raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN,
                            key_spec_index: -1,
                            token: word.as_ptr(),
                            ..ended()
                        })
                        .collect();
                    list.push(ended());
                    subargs = list.as_mut_ptr();
                    inner.push(Self {
                        list,
                        _inner: Vec::new(),
                    });
                    (
                        raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF,
                        -1,
                    )
                }
                ArgKind::Integer => (
                    raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER,
                    -1,
                ),
                ArgKind::Text => (
                    raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING,
                    -1,
                ),
                ArgKind::UnixTime => (
                    raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_UNIX_TIME,
                    -1,
                ),
                ArgKind::Flag => (
                    raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN,
                    -1,
                ),
                ArgKind::Block(args) => {
                    let mut block = Self::of(args);
                    subargs = block.list.as_mut_ptr();
                    inner.push(block);
                    (
                        raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_BLOCK,
                        -1,
                    )
                }
            };
            let mut flags = 0;
            if arg.optional {
                flags |= raw::REDISMODULE_CMD_ARG_OPTIONAL;
            }
            if arg.multiple {
                flags |= raw::REDISMODULE_CMD_ARG_MULTIPLE;
            }
            list.push(raw::RedisModuleCommandArg {
                name: arg.name.as_ptr(),
                type_: kind,
                key_spec_index: key_spec,
                token: arg.token.map_or(ptr::null(), CStr::as_ptr),
                flags: flags as c_int,
                subargs,
                ..ended()
            });
        }
        list.push(ended());
        Self {
            list,
            _inner: inner,
        }
    }
}

/// The all-zero entry that ends a list of arguments.
const fn ended() -> raw::RedisModuleCommandArg {
    raw::RedisModuleCommandArg {
        name: ptr::null(),
        type_: 0,
        key_spec_index: 0,
        token: ptr::null(),
        summary: ptr::null(),
        since: ptr::null(),
        flags: 0,
        deprecated_since: ptr::null(),
        subargs: ptr::null_mut(),
        display_text: ptr::null(),
    }
}

/// Tells the server about the command `name`. False where it refuses; true where it cannot be told.
///
/// # Safety
/// `ctx` is the one that `RedisModule_OnLoad` was given, and the command was created with it.
pub(super) unsafe fn tell(
    ctx: *mut raw::RedisModuleCtx,
    name: &CStr,
    arity: c_int,
    keys: Keys,
    docs: &Docs,
) -> bool {
    // SAFETY: the pointers are written by `Export_RedisModule_Init` alone, which has returned.
    let (Some(get_command), Some(set_info)) = (unsafe { raw::RedisModule_GetCommand }, unsafe {
        raw::RedisModule_SetCommandInfo
    }) else {
        return true;
    };
    let version = raw::RedisModuleCommandInfoVersion {
        version: 1,
        sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
        sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
        sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
    };
    let mut key_specs = [
        // SAFETY: all zero is a valid value of this C struct: null pointers, zero numbers.
        unsafe { std::mem::zeroed::<raw::RedisModuleCommandKeySpec>() },
        // SAFETY: as above; it ends the list.
        unsafe { std::mem::zeroed::<raw::RedisModuleCommandKeySpec>() },
    ];
    let (flags, place) = match keys {
        Keys::Updated(place) => (
            raw::REDISMODULE_CMD_KEY_RW
                | raw::REDISMODULE_CMD_KEY_ACCESS
                | raw::REDISMODULE_CMD_KEY_UPDATE,
            place,
        ),
        Keys::Read(place) => (
            raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS,
            place,
        ),
        // The command itself tells, and no specification can; or there are none.
        Keys::Found | Keys::None => (0, 0),
    };
    if place > 0 {
        let spec = &mut key_specs[0];
        spec.flags = flags.into();
        spec.begin_search_type = raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX;
        spec.bs.index.pos = place;
        spec.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE;
        // A step of 0 kills servers.
        spec.fk.range.keystep = 1;
    }
    let mut args = RawArgs::of(docs.args);
    let info = raw::RedisModuleCommandInfo {
        version: &version,
        summary: docs.summary.as_ptr(),
        complexity: docs.complexity.as_ptr(),
        since: docs.since.as_ptr(),
        history: ptr::null_mut(),
        tips: ptr::null(),
        arity,
        key_specs: key_specs.as_mut_ptr(),
        args: args.list.as_mut_ptr(),
    };
    // SAFETY: `ctx` by the caller's promise; the server copies everything that `info` points to.
    unsafe {
        let command = get_command(ctx, name.as_ptr());
        !command.is_null() && set_info(command, &info) == raw::REDISMODULE_OK as c_int
    }
}
