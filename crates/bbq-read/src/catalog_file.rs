//! The file of a reader's catalog, whatever is in it: sealed, and replaced as a whole.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bbq_spool::{file_name_of, sealed};
use bbq_storage::Storage;

/// The end of the name of a catalog that cannot be read, and is kept for people.
const DAMAGED: &str = ".damaged";

/// A kind of catalog.
pub(crate) struct CatalogKind<T> {
    /// In the first line.
    pub(crate) name: &'static str,
    /// The end of the names of files.
    pub(crate) suffix: &'static str,
    /// Reads what stands behind the first line.
    pub(crate) parse: fn(&str) -> Option<T>,
}

/// The catalog of a reader on disk.
pub(crate) struct CatalogFile {
    kind: &'static str,
    storage: Arc<dyn Storage>,
    path: PathBuf,
}

/// What a start has found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Loaded<T> {
    /// There is no catalog: this is the first start of the reader.
    First,
    /// As it was written.
    Known(T),
    /// It cannot be read. It was set aside under another name.
    Damaged(PathBuf),
}

impl<T> CatalogKind<T> {
    /// The catalog of the reader with this name. The directory is created if it is missing.
    pub(crate) fn open(
        &self,
        directory: &Path,
        reader: &str,
        storage: Arc<dyn Storage>,
    ) -> io::Result<(CatalogFile, Loaded<T>)> {
        storage.create_dir_all(directory)?;
        let path = directory.join(format!("{}{}", file_name_of(reader), self.suffix));
        let loaded = match storage.read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Loaded::First,
            read => match self.read(&read?) {
                Some(contents) => Loaded::Known(contents),
                None => {
                    let mut aside = path.clone().into_os_string();
                    aside.push(DAMAGED);
                    let aside = PathBuf::from(aside);
                    storage.rename_durably(&path, &aside)?;
                    Loaded::Damaged(aside)
                }
            },
        };
        Ok((CatalogFile { kind: self.name, storage, path }, loaded))
    }

    /// The contents of all catalogs of this kind in a directory. A damaged one has none.
    ///
    /// # Errors
    /// A catalog cannot be read now.
    pub(crate) fn all(&self, directory: &Path, storage: &dyn Storage) -> io::Result<Vec<T>> {
        let names = match storage.list(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            names => names?,
        };
        let mut all = Vec::new();
        for name in names.iter().filter(|name| name.ends_with(self.suffix)) {
            all.extend(self.read(&storage.read(&directory.join(name))?));
        }
        Ok(all)
    }

    fn read(&self, bytes: &[u8]) -> Option<T> {
        (self.parse)(sealed::open(self.name, std::str::from_utf8(bytes).ok()?)?)
    }
}

impl CatalogFile {
    /// Replaces the contents; durable on return.
    pub(crate) fn replace(&self, body: &str) -> io::Result<()> {
        self.storage.replace(&self.path, sealed::seal(self.kind, body).as_bytes())
    }

    #[cfg(test)]
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}
