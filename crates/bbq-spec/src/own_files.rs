//! The server's own files in its data directory, and whether a path means one of them.
//!
//! Invariant: control looks at no disk for this, as the disk of an output may hang. [`resolved`] does; it is for the thread of a sink, and for
//! `bbq check`.

use std::path::{Component, Path, PathBuf};

/// What the server keeps in its data directory. Everything else there is free for sinks, such as `out/`.
const OWN: [&str; 7] = ["cursors", "dead-letters", "ledger", "lock", "quarantine", "spool", "streams"];

/// As many as the kernel follows (path_resolution(7)).
const LINKS_MAX: usize = 40;

/// The path from the root, through symbolic links, also if nothing is at its end yet: two ways to write a path are one file.
pub fn resolved(path: &Path) -> PathBuf {
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

/// The path from the root, by its words alone.
pub fn absolute(path: &Path) -> PathBuf {
    let mut folded = PathBuf::from("/");
    for component in std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).components() {
        match component {
            Component::ParentDir => _ = folded.pop(),
            component => folded.push(component),
        }
    }
    folded
}

/// The file or directory of the server's own that `path` is, or is in. `means` is [`absolute`] or [`resolved`].
pub fn own_place(data: &Path, path: &Path, means: fn(&Path) -> PathBuf) -> Option<PathBuf> {
    let path = means(path);
    OWN.iter().map(|name| data.join(name)).find(|own| path.starts_with(means(own)))
}

/// Why a sink may not write there, and what to do.
pub fn refusal(data: &Path, own: &Path) -> String {
    let (own, other) = (own.display(), data.join("out"));
    format!("{own} is where the server keeps its own data; choose another path, such as {}", other.display())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_the_server_keeps_is_its_own_and_nothing_else() {
        let data = Path::new("data");
        for own in OWN {
            for path in [format!("data/{own}"), format!("./data/out/../{own}/deeper/a.log")] {
                assert_eq!(own_place(data, Path::new(&path), absolute), Some(data.join(own)), "{path}");
            }
        }
        for free in
            ["data/out/messages.log", "data/messages.log", "data/spool.log", "data/locked/a", "spool/a"]
        {
            assert_eq!(own_place(data, Path::new(free), absolute), None, "{free}");
        }
    }

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
