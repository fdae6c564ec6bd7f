//! Whose process the server runs in: what of the process it may use.

use bbq_config::ConfigSource;

use crate::lifecycle::notify::notify;
use crate::lifecycle::upgrade::Program;

/// Whose process it is.
pub(crate) enum Host {
    /// The server's own. It is the service that systemd knows, takes over sockets, and can be reloaded and upgraded.
    Server {
        /// Where the configuration came from.
        source: ConfigSource,
        /// How this process was started.
        program: Program,
    },
    /// Another program's, which has its service manager, its sockets and most of its signals for itself.
    Program,
}

impl Host {
    pub(crate) fn is_server(&self) -> bool {
        matches!(self, Host::Server { .. })
    }

    /// Tells the service manager the state of the server.
    pub(crate) fn notify(&self, state: &str) {
        if self.is_server() {
            notify(state);
        }
    }
}
