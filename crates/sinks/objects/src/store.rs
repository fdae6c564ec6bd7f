//! Where objects are: a bucket, or a directory.

use std::error::Error as _;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::AmazonS3;
#[cfg(feature = "azure")]
use object_store::azure::MicrosoftAzure;
#[cfg(feature = "gcs")]
use object_store::gcp::GoogleCloudStorage;
use object_store::path::Path;
use object_store::{Error, GetOptions, GetRange, GetResult, ObjectStore as _, PutMode, PutPayload};

use super::created::Created;
use super::directory::Directory;
use super::footer::FOOTER_BYTES;
use super::uploads::{REQUEST_TIMEOUT, Uploads, sliced};

/// A server that does not accept a connection within this time is down.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Written once for each sink, by which bbq sees whether the server refuses to write an object twice.
const PROBE: &str = "conditional-writes";

/// What differs between clouds.
#[derive(Debug)]
pub(super) struct Cloud {
    /// The header of a write that fails if there is an object of the name.
    pub(super) condition: &'static str,
    /// It sends the last bytes of an object to somebody who does not know its length.
    pub(super) has_suffix_ranges: bool,
    /// What to do if the bucket is not there ..
    pub(super) no_bucket: &'static str,
    /// .. and if it does not let bbq in.
    pub(super) no_access: &'static str,
}

/// The stores of this build. No `dyn ObjectStore`, which would bring all that the library can do with each into the program.
#[derive(Debug)]
pub(super) enum Remote {
    S3(AmazonS3),
    #[cfg(feature = "gcs")]
    Google(GoogleCloudStorage),
    #[cfg(feature = "azure")]
    Azure(MicrosoftAzure),
}

impl Remote {
    /// Writes an object unless there is one.
    async fn create(&self, path: &Path, payload: PutPayload) -> Result<(), Error> {
        let options = PutMode::Create.into();
        match self {
            Remote::S3(store) => store.put_opts(path, payload, options).await?,
            #[cfg(feature = "gcs")]
            Remote::Google(store) => store.put_opts(path, payload, options).await?,
            #[cfg(feature = "azure")]
            Remote::Azure(store) => store.put_opts(path, payload, options).await?,
        };
        Ok(())
    }

    async fn get(&self, path: &Path, options: GetOptions) -> Result<GetResult, Error> {
        match self {
            Remote::S3(store) => store.get_opts(path, options).await,
            #[cfg(feature = "gcs")]
            Remote::Google(store) => store.get_opts(path, options).await,
            #[cfg(feature = "azure")]
            Remote::Azure(store) => store.get_opts(path, options).await,
        }
    }
}

/// A bucket, or what its cloud calls so.
#[derive(Debug)]
pub(super) struct Bucket {
    pub(super) remote: Remote,
    /// What precedes every name: nothing, or what ends with a slash.
    pub(super) prefix: String,
    pub(super) cloud: &'static Cloud,
    /// Those of the connector that `remote` has.
    pub(super) uploads: Arc<Uploads>,
}

/// In the URLs by which a machine in a cloud asks who it is.
const METADATA: [&str; 3] = ["//169.254.169.254/", "//169.254.170.2/", "//metadata.google.internal/"];

/// See the module.
#[derive(Debug)]
pub(super) enum Store {
    Bucket(Bucket),
    Directory(Directory),
}

impl Store {
    /// Checks that the destination can be written to, and refuses to write an object twice.
    pub(super) async fn probe(&self, id: &str) -> io::Result<()> {
        let Store::Bucket(bucket) = self else { return Ok(()) };
        let name = format!("{id}/{PROBE}");
        for _ in 0..2 {
            if self.create(&name, Arc::default()).await? == Created::Exists {
                return Ok(());
            }
        }
        Err(io::Error::other(format!(
            "the server wrote an object again that was to be written only if it did not exist ({}), so bbq cannot write each message \
             exactly once; use a server with conditional writes",
            bucket.cloud.condition
        )))
    }

    /// Writes an object unless there is one of that name.
    pub(super) async fn create(&self, name: &str, bytes: Arc<[u8]>) -> io::Result<Created> {
        match self {
            Store::Directory(directory) => directory.create(name, &bytes),
            Store::Bucket(bucket) => bucket.create(name, bytes).await,
        }
    }

    /// The last bytes of an object, as many as a footer has. The kind of the error is `NotFound` if there is no such object.
    pub(super) async fn end(&self, name: &str) -> io::Result<Vec<u8>> {
        match self {
            Store::Directory(directory) => directory.end(name),
            Store::Bucket(bucket) => bucket.end(name).await,
        }
    }

    /// The same of an object that may not be there, which is `None`.
    pub(super) async fn find(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match self.end(name).await {
            Ok(end) => Ok(Some(end)),
            // S3 tells whether an object is there only to those who may list the bucket. If there are no rights at all, the write fails.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The uploads, if objects are uploaded.
    pub(super) fn uploads(&self) -> Option<&Uploads> {
        match self {
            Store::Directory(_) => None,
            Store::Bucket(bucket) => Some(&bucket.uploads),
        }
    }
}

impl Bucket {
    async fn create(&self, name: &str, bytes: Arc<[u8]>) -> io::Result<Created> {
        let path = self.path(name);
        match self.remote.create(&path, sliced(bytes)).await {
            Ok(()) => Ok(Created::New),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(Created::Exists),
            Err(error) => Err(self.failed(name, &error)),
        }
    }

    /// The last bytes of an object.
    async fn end(&self, name: &str) -> io::Result<Vec<u8>> {
        let path = self.path(name);
        let read = async {
            let range = match self.cloud.has_suffix_ranges {
                true => GetRange::Suffix(FOOTER_BYTES as u64),
                false => {
                    let head = GetOptions { head: true, ..GetOptions::default() };
                    let length = self.remote.get(&path, head).await?.meta.size;
                    GetRange::Bounded(length.saturating_sub(FOOTER_BYTES as u64)..length)
                }
            };
            let options = GetOptions { range: Some(range), ..GetOptions::default() };
            self.remote.get(&path, options).await?.bytes().await
        };
        // There may be two requests.
        let read = tokio::time::timeout(REQUEST_TIMEOUT, read).await;
        let end = read.map_err(|_| late(name, REQUEST_TIMEOUT))?;
        Ok(end.map_err(|error| self.failed(name, &error))?.to_vec())
    }

    fn path(&self, name: &str) -> Path {
        Path::from(format!("{}{name}", self.prefix))
    }

    fn failed(&self, name: &str, error: &Error) -> io::Error {
        let mut text = error.to_string();
        let mut source = error.source();
        // The texts of most errors have those of their sources.
        while let Some(error) = source {
            let more = error.to_string();
            if !text.contains(&more) {
                text = format!("{text}: {more}");
            }
            source = error.source();
        }
        let remedy = match error {
            Error::NotFound { .. } => self.cloud.no_bucket.to_owned(),
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => self.cloud.no_access.to_owned(),
            Error::NotImplemented { .. } => {
                format!("the server must have conditional writes ({})", self.cloud.condition)
            }
            // The library asks the machine when there is nothing else.
            _ if METADATA.iter().any(|server| text.contains(server)) => {
                format!(
                    "there are no credentials other than those of the machine, if it has any; {}",
                    self.cloud.no_access
                )
            }
            _ => String::new(),
        };
        let separator = if remedy.is_empty() { "" } else { "; " };
        let kind = match error {
            Error::NotFound { .. } => ErrorKind::NotFound,
            Error::PermissionDenied { .. } => ErrorKind::PermissionDenied,
            _ => ErrorKind::Other,
        };
        io::Error::new(kind, format!("{name}: {text}{separator}{remedy}"))
    }
}

fn late(name: &str, patience: Duration) -> io::Error {
    let text = format!("{name}: the server did not respond within {} s", patience.as_secs());
    io::Error::new(ErrorKind::TimedOut, text)
}
