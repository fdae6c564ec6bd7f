//! Where a server over TLS listens, and its certificate: the arguments ADDRESS CHAIN KEY.

use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};

/// The chain and its key, both read from PEM files.
pub(crate) type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

pub(crate) fn arguments(default: &str) -> anyhow::Result<(String, Identity)> {
    let argument = |place, default: &str| std::env::args().nth(place).unwrap_or_else(|| default.to_owned());
    let chain = CertificateDer::pem_file_iter(argument(2, "server.crt"))?.collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_file(argument(3, "server.key"))?;
    Ok((argument(1, default), (chain, key)))
}
