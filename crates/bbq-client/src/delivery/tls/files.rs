//! The PEM files of a sender: reads them, checks that key and certificate fit together, and detects changes.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::StartError;
use crate::tls_options::TlsOptions;

/// All public CAs together take less than a quarter of this.
const PEM_BYTES_MAX: u64 = 1024 * 1024;

/// Identifies the contents of the files. A file that is replaced or written again gets another stamp; a missing file has none.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stamps(Vec<Option<[u64; 5]>>);

impl Stamps {
    pub(super) fn of(options: &TlsOptions) -> Stamps {
        let stamp = |path: &Path| {
            let file = fs::metadata(path).ok()?;
            Some([file.dev(), file.ino(), file.size(), file.mtime() as u64, file.mtime_nsec() as u64])
        };
        let paths = [&options.ca, &options.cert, &options.key];
        Stamps(paths.into_iter().flatten().map(|path| stamp(path)).collect())
    }
}

/// The certificates that the system trusts.
pub(super) fn system_roots() -> Result<Arc<RootCertStore>, StartError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Certificates that rustls cannot use are ignored: many systems have some.
    let (usable, _ignored) = roots.add_parsable_certificates(found.certs);
    if usable > 0 {
        return Ok(Arc::new(roots));
    }
    let why = found.errors.first().map_or_else(String::new, |error| format!(" ({error})"));
    let problem = format!(
        "the system has no certificates of CAs{why}; install ca-certificates, or set tls_ca to a PEM file"
    );
    Err(StartError::Tls { option: "tls_ca", value: "not set".to_owned(), problem })
}

/// Reads the files. `system` are the roots if the options name no CA.
pub(super) fn configuration(
    options: &TlsOptions,
    system: Option<&Arc<RootCertStore>>,
) -> Result<ClientConfig, StartError> {
    let roots = match (&options.ca, system) {
        (Some(path), _) => Arc::new(roots(path)?),
        (None, Some(system)) => Arc::clone(system),
        (None, None) => system_roots()?,
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| StartError::System(error.to_string()))?
        .with_root_certificates(roots);
    let mut configuration = match (&options.cert, &options.key) {
        (Some(cert), Some(key)) => builder
            .with_client_auth_cert(certificates("tls_cert", cert)?, private_key(key)?)
            .map_err(|error| mismatch(cert, key, &error))?,
        _ => builder.with_no_client_auth(),
    };
    // Resumption would gain little: connections last, and when many begin at once, the server has restarted and has lost its sessions.
    // Without it, the server's certificate is checked each time.
    configuration.resumption = Resumption::disabled();
    Ok(configuration)
}

fn error(option: &'static str, path: &Path, problem: String) -> StartError {
    StartError::Tls { option, value: path.display().to_string(), problem }
}

fn roots(path: &Path) -> Result<RootCertStore, StartError> {
    let mut roots = RootCertStore::empty();
    for (certificate, number) in certificates("tls_ca", path)?.into_iter().zip(1..) {
        roots.add(certificate).map_err(|why| {
            error("tls_ca", path, format!("certificate {number} in it cannot be used ({why}); replace it"))
        })?;
    }
    Ok(roots)
}

fn certificates(option: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, StartError> {
    let bytes = read(option, path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => {
            let problem = "there is no certificate in it; name a PEM file, which has a line -----BEGIN CERTIFICATE-----";
            Err(error(option, path, problem.to_owned()))
        }
        Err(why) => Err(error(option, path, format!("it is a damaged PEM file ({why}); replace it"))),
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, StartError> {
    let bytes = read("tls_key", path)?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|why| {
        let is_encrypted = bytes.windows(9).any(|word| word == b"ENCRYPTED");
        let problem = match why {
            _ if is_encrypted => {
                "its key is encrypted; decrypt it with `openssl pkey -in FILE -out NEW`, and keep it readable for this user alone"
                    .to_owned()
            }
            rustls::pki_types::pem::Error::NoItemsFound => {
                "there is no key in it; name a PEM file, which has a line -----BEGIN PRIVATE KEY-----".to_owned()
            }
            why => format!("it is a damaged PEM file ({why}); replace it"),
        };
        error("tls_key", path, problem)
    })
}

fn mismatch(cert: &Path, key: &Path, why: &rustls::Error) -> StartError {
    let problem = match why {
        rustls::Error::InconsistentKeys(_) => {
            format!(
                "it is not the key of the first certificate in {}; name the two that belong together",
                cert.display()
            )
        }
        why => format!(
            "it cannot be used with {} ({why}); make a key for RSA, ECDSA (P-256, P-384) or Ed25519",
            cert.display()
        ),
    };
    error("tls_key", key, problem)
}

fn read(option: &'static str, path: &Path) -> Result<Vec<u8>, StartError> {
    let read = || -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(path)?.take(PEM_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().map_err(|why| {
        error(option, path, format!("it cannot be read ({why}); name a PEM file that this user may read"))
    })?;
    if bytes.len() as u64 > PEM_BYTES_MAX {
        return Err(error(option, path, format!("it has over {PEM_BYTES_MAX} bytes; name a PEM file")));
    }
    Ok(bytes)
}
