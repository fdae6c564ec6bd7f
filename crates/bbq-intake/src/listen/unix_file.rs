//! The file of a unix socket as a SPEC configures it: its permissions and its owner.

use bbq_listen::{Address, UnixOwner};
use bbq_spec::{ConfigError, Query, SpecOption, Values};

/// Every user of the machine may connect, as to /dev/log and to a port on loopback: services mostly run as users of their own, and
/// one that cannot reach its log loses it. A narrower mode, or the permissions of the directory, keep others out.
const MODE_DEFAULT: u32 = 0o666;

/// The keys of this file.
const KEYS: [&str; 3] = ["mode", "owner", "group"];

pub(super) const MODE: SpecOption = SpecOption {
    key: "mode",
    values: Values::Text { form: "four octal digits from 0000 to 0777, as a text", pattern: "^0[0-7]{3}$" },
    default: "0666",
    meaning: "unix and unixgram: the permissions of the socket's file; a client needs write permission. With 0666 every user of the \
              machine may send, as on loopback",
};
pub(super) const OWNER: SpecOption = SpecOption {
    key: "owner",
    values: Values::Text { form: "the name or number of a user", pattern: "." },
    default: "the server's user",
    meaning: "unix and unixgram: the owner of the socket's file; only root may name another user",
};
pub(super) const GROUP: SpecOption = SpecOption {
    key: "group",
    values: Values::Text { form: "the name or number of a group", pattern: "." },
    default: "the server's group",
    meaning: "unix and unixgram: the group of the socket's file",
};

/// Permissions and owner of a socket's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnixFile {
    /// The permissions.
    pub mode: u32,
    /// User and group; `None` leaves them as the system sets them.
    pub owner: UnixOwner,
}

impl UnixFile {
    /// Takes the options of a socket's file; returns `None` for an address without a file.
    pub(super) fn take(
        query: &mut Query<'_>,
        text: &str,
        address: &Address,
    ) -> Result<Option<UnixFile>, ConfigError> {
        if !address.transport().is_unix() {
            return match KEYS.into_iter().find(|key| query.is_written(key)) {
                Some(key) => Err(ConfigError::new(format!(
                    "{text:?}: {key} has no meaning here: it is for the file of a unix or unixgram socket; leave it out"
                ))),
                None => Ok(None),
            };
        }
        let mode = query.take(MODE.key, mode)?.unwrap_or(MODE_DEFAULT);
        let user = query.take(OWNER.key, |name| number(name, "user", UnixOwner::user_named))?;
        let group = query.take(GROUP.key, |name| number(name, "group", UnixOwner::group_named))?;
        Ok(Some(UnixFile { mode, owner: UnixOwner { user, group } }))
    }
}

/// With a leading zero: so that 0o660, which TOML reads as the number 432, is not taken for the mode 0432.
fn mode(text: &str) -> Result<u32, String> {
    let is_octal = text.len() == 4 && text.starts_with('0');
    let mode = u32::from_str_radix(text, 8).ok().filter(|_| is_octal);
    mode.ok_or_else(|| format!("{text:?} is not a mode; write {}, such as \"0660\"", MODE.values))
}

fn number(
    name: &str,
    what: &str,
    named: impl FnOnce(&str) -> std::io::Result<Option<u32>>,
) -> Result<u32, String> {
    if let Ok(number) = name.parse() {
        // The largest number stands for "no change" in chown(2).
        return Some(number)
            .filter(|number| *number != u32::MAX)
            .ok_or_else(|| format!("no {what} has this number"));
    }
    match named(name) {
        Ok(Some(number)) => Ok(number),
        Ok(None) => {
            Err(format!("there is no {what} {name:?}; write a name or a number that the system knows"))
        }
        Err(error) => Err(format!("cannot look up the {what} {name:?}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listen::ListenSpec;

    fn file(options: &str) -> Result<Option<UnixFile>, String> {
        let spec = ListenSpec::parse(&format!("lines+unix:///run/log?{options}"));
        spec.map(|spec| spec.unix_file).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_is_for_everybody_unless_it_is_said() {
        let everybody = UnixFile { mode: 0o666, owner: UnixOwner::default() };
        assert_eq!(file(""), Ok(Some(everybody)));
        let owner = UnixOwner { user: Some(0), group: Some(27) };
        assert_eq!(file("mode=0660&owner=root&group=27"), Ok(Some(UnixFile { mode: 0o660, owner })));
    }

    #[test]
    fn each_mistake_says_what_is_allowed() {
        for (options, says) in [
            ("mode=432", "\"432\" is not a mode; write four octal digits"),
            ("mode=0888", "not a mode"),
            ("mode=+660", "not a mode"),
            ("mode=1777", "not a mode"),
            ("owner=no-such-user", "there is no user \"no-such-user\""),
            ("group=no-such-group", "there is no group \"no-such-group\""),
            ("group=4294967295", "no group has this number"),
        ] {
            let error = file(options).unwrap_err();
            assert!(error.contains(says), "{options}: {error}");
        }
        let error = ListenSpec::parse("lines+tcp://127.0.0.1:1?mode=0660").unwrap_err().to_string();
        assert!(error.contains("mode has no meaning here: it is for the file"), "{error}");
    }
}
