//! Credentials from files, which are read again when one of them has changed: keys are rotated without a restart.

use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use bbq_spec::FileStamp;
use object_store::{CredentialProvider, Error, Result};

/// What has the credentials of one state of the files.
pub(super) type Provider<C> = Arc<dyn CredentialProvider<Credential = C>>;
type Stamps = Vec<Option<FileStamp>>;

/// See the module.
pub(super) struct Renewed<C> {
    paths: Vec<PathBuf>,
    read: Box<dyn Fn() -> Result<Provider<C>, String> + Send + Sync>,
    current: Mutex<Option<(Stamps, Provider<C>)>>,
}

impl<C> Renewed<C> {
    /// `read` reads the files `paths`. It is called for a request whenever one of them has changed, and again after an error.
    pub(super) fn new(
        paths: Vec<PathBuf>,
        read: impl Fn() -> Result<Provider<C>, String> + Send + Sync + 'static,
    ) -> Renewed<C> {
        Renewed { paths, read: Box::new(read), current: Mutex::new(None) }
    }

    fn provider(&self) -> Result<Provider<C>> {
        // Before they are read: a change in between is read once more.
        let stamps: Stamps = self.paths.iter().map(|path| FileStamp::of(path)).collect();
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        match &*current {
            Some((known, provider)) if *known == stamps => Ok(Arc::clone(provider)),
            _ => {
                let provider = (self.read)()
                    .map_err(|text| Error::Generic { store: "credentials", source: text.into() })?;
                *current = Some((stamps, Arc::clone(&provider)));
                Ok(provider)
            }
        }
    }
}

impl<C> fmt::Debug for Renewed<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Renewed").field("paths", &self.paths).finish_non_exhaustive()
    }
}

impl<C: Send + Sync + 'static> CredentialProvider for Renewed<C> {
    type Credential = C;

    fn get_credential<'a, 'b>(&'a self) -> Pin<Box<dyn Future<Output = Result<Arc<C>>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move { self.provider()?.get_credential().await })
    }
}
