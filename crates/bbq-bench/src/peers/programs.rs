//! Where the programs of other servers are.

use std::path::PathBuf;

/// Where system programs are that an ordinary user's PATH does not have.
const SYSTEM_PATH: &str = "/usr/sbin:/sbin:/usr/local/sbin";

/// Whether a program is here; if not, it is named among what is left out.
pub(crate) fn installed(program: &str, left_out: &mut Vec<String>) -> bool {
    let found = find(program).is_some();
    if !found {
        left_out.push(format!("{program} is not installed, see bench/peers/install"));
    }
    found
}

/// A program of the system, or one that was unpacked beside the build.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(std::env::split_paths(SYSTEM_PATH));
    let unpacked = unpacked().into_iter().flat_map(|root| [root.join("usr/sbin"), root.join("bin")]);
    directories.chain(unpacked).map(|directory| directory.join(program)).find(|path| path.is_file())
}

/// Where `bench/peers/install` puts what cannot be installed beside its rivals, and in `bin` what it compiles:
/// target/bench/peers, as this program is in target/release.
pub(super) fn unpacked() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    Some(program.parent()?.parent()?.join("bench/peers"))
}
