//! The files and the admin address of a server.

use std::net::SocketAddr;
use std::path::PathBuf;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Home {
    pub(crate) config: PathBuf,
    pub(crate) data: PathBuf,
    pub(crate) log: PathBuf,
    pub(crate) admin: SocketAddr,
}
