//! The compression of bodies.

use std::io::{self, Write as _};

use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::header::HeaderValue;

/// How the body of a request is compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Coding {
    #[default]
    None,
    Gzip,
    Zstd,
}

/// As they are configured.
pub(crate) const WORDS: [(&str, Coding); 3] =
    [("none", Coding::None), ("gzip", Coding::Gzip), ("zstd", Coding::Zstd)];
/// The fastest level that makes lines a few times shorter.
const ZSTD_LEVEL: i32 = 1;

impl Coding {
    /// Its name in `Content-Encoding`; `None` for a body as it is.
    pub(crate) fn name(self) -> Option<HeaderValue> {
        match self {
            Coding::None => None,
            Coding::Gzip => Some(HeaderValue::from_static("gzip")),
            Coding::Zstd => Some(HeaderValue::from_static("zstd")),
        }
    }

    pub(crate) fn encode(self, body: Vec<u8>) -> io::Result<Vec<u8>> {
        match self {
            Coding::None => Ok(body),
            Coding::Gzip => {
                let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 2), Compression::fast());
                encoder.write_all(&body)?;
                encoder.finish()
            }
            Coding::Zstd => {
                let mut encoded = Vec::with_capacity(zstd_safe::compress_bound(body.len()));
                zstd_safe::compress(&mut encoded, &body, ZSTD_LEVEL)
                    .map_err(|code| io::Error::other(zstd_safe::get_error_name(code)))?;
                Ok(encoded)
            }
        }
    }
}
