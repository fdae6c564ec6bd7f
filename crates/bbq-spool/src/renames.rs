//! The names that operators have given sinks. Each is a mark beside the cursors, by which the old name leads to the new one.
//!
//! ```text
//! bbq renamed 1 <crc>                       see crate::sealed
//! from <name>
//! to <name>
//! ```
//!
//! The mark decides: it is written first, and what the sink has moves after it. What a kill leaves in its place, the next start moves.
//!
//! A rename back turns the mark around, in one step: the name in between leads to the sink then, as it may be in the configuration. For a
//! moment that mark is in a file with the other name, so it counts what is in a file, and not what the file is called.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::file_name::file_name_of;
use crate::{Storage, sealed};

const SUFFIX: &str = ".renamed";

/// All marks of a directory, by the old name.
pub(crate) struct Renames(BTreeMap<String, Mark>);

struct Mark {
    /// The new name.
    to: String,
    path: PathBuf,
}

impl Renames {
    /// # Errors
    /// A mark cannot be read, or is damaged: nobody knows then which cursor is the sink's.
    pub(crate) fn read(storage: &dyn Storage, directory: &Path) -> io::Result<Renames> {
        let mut renames = BTreeMap::new();
        for name in storage.list(directory)?.iter().filter(|name| name.ends_with(SUFFIX)) {
            let path = directory.join(name);
            let bytes = storage.read(&path)?;
            let read = std::str::from_utf8(&bytes).ok().and_then(decode);
            let Some((from, to)) = read else {
                let text = format!(
                    "{} is damaged; restore it, or delete it to begin again at the oldest message",
                    path.display()
                );
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            };
            renames.insert(from, Mark { to, path });
        }
        Ok(Renames(renames))
    }

    /// Where a name leads directly.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|mark| mark.to.as_str())
    }

    /// The file that says where a name leads.
    pub(crate) fn path(&self, name: &str) -> Option<&Path> {
        self.0.get(name).map(|mark| mark.path.as_path())
    }

    /// Gives each mark the file that has its old name. What fails now is done later, or never: the mark counts in any case.
    pub(crate) fn tidy(&self, storage: &dyn Storage, directory: &Path) {
        for (from, mark) in &self.0 {
            let path = path_of(directory, from);
            if path != mark.path && is_there(storage, &path).is_ok_and(|is_there| !is_there) {
                let _later = storage.rename_durably(&mark.path, &path);
            }
        }
    }

    /// Where a name leads in the end.
    ///
    /// # Errors
    /// It leads back to itself, which no rename makes.
    pub(crate) fn follow(&self, name: &str) -> io::Result<String> {
        let mut present = name;
        for _ in 0..=self.0.len() {
            match self.get(present) {
                Some(next) => present = next,
                None => return Ok(present.to_owned()),
            }
        }
        let text = format!("the files *{SUFFIX} of sink {name} lead in a circle; delete one of them");
        Err(io::Error::new(io::ErrorKind::InvalidData, text))
    }

    /// The names that lead to this one, the last one first.
    pub(crate) fn earlier(&self, name: &str) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        let mut next = 0;
        loop {
            let of: &str = if next == 0 { name } else { &names[next - 1] };
            let more: Vec<String> =
                self.0.iter().filter(|(_, mark)| mark.to == of).map(|(from, _)| from.clone()).collect();
            // A circle ends here.
            names.extend(more.into_iter().filter(|from| from != name).collect::<Vec<_>>());
            if next >= names.len() || next > self.0.len() {
                return names;
            }
            next += 1;
        }
    }
}

fn path_of(directory: &Path, from: &str) -> PathBuf {
    directory.join(file_name_of(from) + SUFFIX)
}

/// A file for a new mark: the one with its name, unless that still has another mark.
///
/// # Errors
/// Nobody can say what is there.
pub(crate) fn free_path(storage: &dyn Storage, directory: &Path, from: &str) -> io::Result<PathBuf> {
    let mut path = path_of(directory, from);
    while is_there(storage, &path)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        path.set_file_name(format!("and-{name}"));
    }
    Ok(path)
}

/// Whether there is a file. A disk that fails does not say that there is none.
///
/// # Errors
/// Those of the file system.
pub(crate) fn is_there(storage: &dyn Storage, path: &Path) -> io::Result<bool> {
    match storage.kind(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        kind => kind.map(|_| true),
    }
}

/// Writes a mark, in place of what the file has.
///
/// # Errors
/// It is not there. If it is there in spite of an error, it has decided.
pub(crate) fn write(storage: &dyn Storage, path: &Path, from: &str, to: &str) -> io::Result<()> {
    let contents = sealed::seal("renamed", &format!("from {from}\nto {to}\n"));
    match storage.replace(path, contents.as_bytes()) {
        Err(_) if storage.read(path).is_ok_and(|bytes| bytes == contents.as_bytes()) => Ok(()),
        Err(error) => Err(io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display()))),
        Ok(()) => Ok(()),
    }
}

fn decode(text: &str) -> Option<(String, String)> {
    let (from, to) = sealed::open("renamed", text)?.split_once('\n')?;
    let to = to.strip_suffix('\n')?;
    Some((from.strip_prefix("from ")?.to_owned(), to.strip_prefix("to ")?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DiskStorage;

    #[test]
    fn names_lead_on_and_a_circle_or_a_damaged_mark_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let read = || Renames::read(&DiskStorage, directory);
        for (from, to) in [("a", "b"), ("b", "c"), ("x", "y")] {
            write(&DiskStorage, &path_of(directory, from), from, to).unwrap();
        }
        let renames = read().unwrap();
        assert_eq!(
            ["a", "b", "c", "x", "z"].map(|name| renames.follow(name).unwrap()),
            ["c", "c", "c", "y", "z"]
        );
        assert_eq!(
            (renames.earlier("c"), renames.earlier("y")),
            (vec!["b".to_owned(), "a".to_owned()], vec!["x".to_owned()])
        );
        assert!(renames.earlier("a").is_empty());
        write(&DiskStorage, &path_of(directory, "c"), "c", "a").unwrap();
        let renames = read().unwrap();
        assert!(renames.follow("b").unwrap_err().to_string().contains("lead in a circle"));
        assert_eq!(renames.earlier("a").len(), 2);
        std::fs::write(path_of(directory, "x"), "z\n").unwrap();
        assert!(read().err().unwrap().to_string().contains("is damaged; restore it"));
    }
}
