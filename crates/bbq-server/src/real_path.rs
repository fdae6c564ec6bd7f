//! Which file a path means.

use std::path::{Component, Path, PathBuf};

/// As many as the kernel follows (path_resolution(7)).
const LINKS_MAX: usize = 40;

/// The path from the root, through symbolic links, also if nothing is at its end yet: two ways to write a path are one file.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut left: Vec<PathBuf> = components_from_the_end(&absolute);
    let (mut real, mut links) = (PathBuf::from("/"), 0);
    while let Some(next) = left.pop() {
        match next.components().next() {
            Some(Component::RootDir) => real = PathBuf::from("/"),
            Some(Component::ParentDir) => _ = real.pop(),
            Some(Component::Normal(name)) => {
                real.push(name);
                if links < LINKS_MAX
                    && let Ok(target) = real.read_link()
                {
                    links += 1;
                    real.pop();
                    left.extend(components_from_the_end(&target));
                }
            }
            _ => {}
        }
    }
    real
}

/// To be taken from the end of the list.
fn components_from_the_end(path: &Path) -> Vec<PathBuf> {
    path.components().rev().map(|component| PathBuf::from(component.as_os_str())).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_followed_also_to_what_is_not_there() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let at = |path: &str| root.join(path);
        fs::create_dir(at("real")).unwrap();
        symlink("real", at("link")).unwrap();
        symlink("nothing.log", at("dangling.log")).unwrap();
        symlink(at("link"), at("twice")).unwrap();
        symlink("circle", at("circle")).unwrap();
        for (path, means) in [
            ("real/a", "real/a"),
            ("link/a", "real/a"),
            ("twice/new/../a", "real/a"),
            ("missing/../link/a", "real/a"),
            ("dangling.log", "nothing.log"),
            ("link/../dangling.log", "nothing.log"),
        ] {
            assert_eq!(resolved(&at(path)), at(means), "{path}");
        }
        // The kernel refuses it; it only must not go on for ever.
        let _somewhere = resolved(&at("circle/a"));
        assert_eq!(resolved(Path::new("/../..")), Path::new("/"));
    }
}
