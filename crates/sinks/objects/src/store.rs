//! Where objects are: a bucket, or a directory.

use std::error::Error as _;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::AmazonS3;
use object_store::path::Path;
use object_store::{Error, GetOptions, GetRange, ObjectStore as _, PutMode, PutPayload};

use super::created::Created;
use super::directory::Directory;
use super::footer::FOOTER_BYTES;

/// A server that does not accept a connection within this time is down.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A request without much of a body fails after this time, and is sent again.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// A slower upload fails.
const UPLOAD_BYTES_PER_SECOND_MIN: u64 = 256 * 1024;
/// Written once for each sink, by which bbq sees whether the server refuses to write an object twice.
const PROBE: &str = "conditional-writes";

/// See the module.
#[derive(Debug)]
pub(super) enum Store {
    /// A bucket, and what precedes every name.
    Bucket(AmazonS3, String),
    Directory(Directory),
}

impl Store {
    /// Checks that the destination can be written to, and refuses to write an object twice.
    pub(super) async fn probe(&self, id: &str) -> io::Result<()> {
        let Store::Bucket(..) = self else { return Ok(()) };
        let name = format!("{id}/{PROBE}");
        for _ in 0..2 {
            if self.create(&name, Arc::default()).await? == Created::Exists {
                return Ok(());
            }
        }
        Err(io::Error::other(
            "the server wrote an object twice that was to be written only if there is none (If-None-Match: *); bbq cannot write each \
             message once to it: use a server with conditional writes",
        ))
    }

    /// Writes an object unless there is one of that name.
    pub(super) async fn create(&self, name: &str, bytes: Arc<[u8]>) -> io::Result<Created> {
        match self {
            Store::Directory(directory) => directory.create(name, &bytes),
            Store::Bucket(bucket, prefix) => {
                let path = Path::from(format!("{prefix}{name}"));
                let patience =
                    REQUEST_TIMEOUT + Duration::from_secs(bytes.len() as u64 / UPLOAD_BYTES_PER_SECOND_MIN);
                let payload = PutPayload::from_bytes(hyper::body::Bytes::from_owner(bytes));
                let put = bucket.put_opts(&path, payload, PutMode::Create.into());
                match tokio::time::timeout(patience, put).await {
                    Err(_) => Err(late(name, patience)),
                    Ok(Ok(_)) => Ok(Created::New),
                    Ok(Err(Error::AlreadyExists { .. } | Error::Precondition { .. })) => Ok(Created::Exists),
                    Ok(Err(error)) => Err(failed(name, &error)),
                }
            }
        }
    }

    /// The last bytes of an object, as many as a footer has.
    pub(super) async fn end(&self, name: &str) -> io::Result<Vec<u8>> {
        match self {
            Store::Directory(directory) => directory.end(name),
            Store::Bucket(bucket, prefix) => {
                let path = Path::from(format!("{prefix}{name}"));
                let range = Some(GetRange::Suffix(FOOTER_BYTES as u64));
                let read = async {
                    bucket.get_opts(&path, GetOptions { range, ..GetOptions::default() }).await?.bytes().await
                };
                let read = tokio::time::timeout(REQUEST_TIMEOUT, read).await;
                let end = read.map_err(|_| late(name, REQUEST_TIMEOUT))?;
                Ok(end.map_err(|error| failed(name, &error))?.to_vec())
            }
        }
    }
}

fn late(name: &str, patience: Duration) -> io::Error {
    let text = format!("{name}: the server did not respond within {} s", patience.as_secs());
    io::Error::new(io::ErrorKind::TimedOut, text)
}

fn failed(name: &str, error: &Error) -> io::Error {
    let remedy = match error {
        Error::NotFound { .. } => "; is there such a bucket? bbq makes none",
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            "; check access_key_id, secret_access_key and what they may do (s3:PutObject, s3:GetObject)"
        }
        Error::NotImplemented { .. } => "; the server must have conditional writes (If-None-Match: *)",
        _ => "",
    };
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
    io::Error::other(format!("{name}: {text}{remedy}"))
}
