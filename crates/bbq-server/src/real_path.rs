//! Which file a path means.

use std::path::{Component, Path, PathBuf};

/// The path from the root, through the symbolic links of what is there already: two ways to write a path are one file.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut there =
        absolute.ancestors().filter_map(|ancestor| Some((ancestor, ancestor.canonicalize().ok()?)));
    let Some((ancestor, mut real)) = there.next() else { return absolute };
    // What is not there yet has no links.
    for component in absolute.strip_prefix(ancestor).unwrap_or(Path::new("")).components() {
        match component {
            Component::ParentDir => _ = real.pop(),
            component => real.push(component),
        }
    }
    real
}
