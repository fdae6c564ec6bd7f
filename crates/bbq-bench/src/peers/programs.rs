//! Where the programs of other servers are.

use std::path::PathBuf;

/// Directories of system programs that an ordinary user's PATH does not have.
const SYSTEM_PATH: &str = "/usr/sbin:/sbin:/usr/local/sbin";

/// Whether a program is installed. If not, `left_out` names it.
pub(crate) fn installed(program: &str, left_out: &mut Vec<String>) -> bool {
    let found = find(program).is_some();
    if !found {
        left_out.push(format!(
            "{program} is not installed: install it with your package manager, or run bench/peers/install in a clone of bbq"
        ));
    }
    found
}

/// The path of a program of the system, or of one that was unpacked beside the build.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(std::env::split_paths(SYSTEM_PATH));
    let unpacked = unpacked().into_iter().flat_map(|root| [root.join("usr/sbin"), root.join("bin")]);
    directories.chain(unpacked).map(|directory| directory.join(program)).find(|path| path.is_file())
}

/// The directory in which `bench/peers/install` unpacks packages that cannot be installed together, and, in its `bin`, programs
/// that it compiles: target/bench/peers, beside target/release with this program.
pub(super) fn unpacked() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    Some(program.parent()?.parent()?.join("bench/peers"))
}
