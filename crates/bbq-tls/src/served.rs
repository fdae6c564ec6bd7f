//! The certificates that a listener serves now. They can be replaced at any time: each connection keeps those that it began with.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bbq_spec::counter::Counter;
use rustls::ServerConfig;
use tracing::{error, info};

use crate::certificates::Certificates;
use crate::files::{Stamp, TlsFiles};

/// A listener's TLS, shared by its workers, the status and control.
#[derive(Debug)]
pub struct ServedTls {
    files: TlsFiles,
    /// The protocols that clients may ask for (ALPN).
    application: &'static [&'static [u8]],
    now: Mutex<Now>,
    /// Handshakes since the listener was opened.
    pub counts: Arc<HandshakeCounts>,
}

/// Handshakes since the listener was opened.
#[derive(Debug, Default)]
pub struct HandshakeCounts {
    /// Those that were completed.
    pub finished: Counter,
    /// Those that were not.
    pub failed: Counter,
}

impl HandshakeCounts {
    /// Counts a handshake that was completed.
    pub fn add_finished(&self) {
        self.finished.add(1);
    }

    /// Counts one that was not.
    pub fn add_failed(&self) {
        self.failed.add(1);
    }
}

#[derive(Debug)]
struct Now {
    certificates: Certificates,
    /// The files at the last check. They are read when two checks find the same change: certificate and key are two files, and
    /// may be replaced one after the other.
    seen: Stamp,
    /// The files when they were last read.
    read: Stamp,
    /// Why the present content of the files is not served.
    problem: Option<String>,
}

impl ServedTls {
    /// Continues the counts of an earlier configuration, if there was one.
    #[must_use]
    pub fn new(
        files: TlsFiles,
        application: &'static [&'static [u8]],
        certificates: Certificates,
        counts: Arc<HandshakeCounts>,
    ) -> ServedTls {
        let stamp = certificates.stamp.clone();
        let now = Now { certificates, seen: stamp.clone(), read: stamp, problem: None };
        ServedTls { files, application, now: Mutex::new(now), counts }
    }

    /// Whether the files and the protocols are these.
    #[must_use]
    pub fn is_of(&self, files: &TlsFiles, application: &[&[u8]]) -> bool {
        (&self.files, self.application) == (files, application)
    }

    /// The configuration for a new connection.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.now().certificates.config)
    }

    /// Serves these certificates from now on. Returns `true` if the files have changed since the previous ones were read.
    pub fn replace(&self, certificates: Certificates) -> bool {
        let mut now = self.now();
        let has_changed = certificates.stamp != now.certificates.stamp;
        now.seen.clone_from(&certificates.stamp);
        now.read.clone_from(&certificates.stamp);
        now.problem = None;
        now.certificates = certificates;
        has_changed
    }

    /// Reads the files again if they have changed. This waits for the disk, so it must not run on a worker's thread.
    pub fn reload_if_changed(&self, listener: &str) {
        let stamp = self.files.stamp();
        {
            let mut now = self.now();
            let is_settled = std::mem::replace(&mut now.seen, stamp.clone()) == stamp;
            if !is_settled || stamp == now.read {
                return;
            }
            now.read = stamp;
        }
        match Certificates::read(&self.files, self.application) {
            Ok(certificates) => {
                self.replace(certificates);
                info!(listener, "new certificate: new connections get it");
            }
            Err(problem) => {
                error!(listener, %problem, "the new certificate cannot be used; the previous one is still served");
                self.now().problem = Some(problem.to_string());
            }
        }
    }

    /// What a person must fix, if anything.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.now().problem.clone()
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
