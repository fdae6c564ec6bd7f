//! The server as a whole: everything is opened before anything is served, and a start that fails leaves nothing behind.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;

use bbq_config::{Config, ConfigSource};
use bbq_intake::ServedTokens;
use bbq_listen::{Address, activated, return_all_freed_memory, return_freed_memory};
use bbq_observe::status::Status;
use bbq_observe::{Admin, AdminSockets, Changes, CheckThread};
use bbq_spec::threads::spawn;
use bbq_spool::DirectoryLock;
use tokio::sync::{Notify, watch};

use crate::error::StartError;
use crate::lifecycle::activation;
use crate::lifecycle::control::Control;
use crate::lifecycle::current::CurrentParts;
use crate::lifecycle::doubt::Doubts;
use crate::lifecycle::host::Host;
use crate::lifecycle::listeners::Sockets;
use crate::lifecycle::panics::{self, Noticed};
use crate::lifecycle::running::{Running, Start};
use crate::lifecycle::signals::Signals;
use crate::lifecycle::upgrade::{Predecessor, Program};

/// A running server. It stops when it is dropped, as by [`Server::stop`].
pub struct Server {
    /// `None` once it was waited for.
    control: Option<JoinHandle<bool>>,
    stop: Arc<Notify>,
    current: CurrentParts,
    addresses: Vec<Address>,
}

impl Server {
    /// Opens what the configuration names and starts serving, in a process of the server's own; [`Server::builder`] is for a server
    /// in another program. Returns once every listener is open. Sockets that systemd or another server's upgrade hands over are
    /// adopted.
    ///
    /// Reloads and upgrades need `source`, where the configuration came from, and `program`, how this process was started.
    /// `signals` has the signals since the process began.
    ///
    /// # Errors
    /// The first thing that cannot be opened, or [`StartError::Stopped`].
    pub fn start(
        config: Config,
        source: ConfigSource,
        program: Program,
        signals: Signals,
    ) -> Result<Server, StartError> {
        if config.memory.is_small {
            return_all_freed_memory()
        } else {
            return_freed_memory()
        }
        Server::start_in(Host::Server { source, program }, config, signals)
    }

    /// Starts in the process of `host`.
    pub(crate) fn start_in(host: Host, config: Config, signals: Signals) -> Result<Server, StartError> {
        panics::notice(if host.is_server() { Noticed::Process } else { Noticed::Server });
        let check_not_stopped = || if signals.is_stop_asked() { Err(StartError::Stopped) } else { Ok(()) };
        // The predecessor may have ended by the same signal.
        let predecessor_gone = |error| check_not_stopped().err().unwrap_or(StartError::Upgrade(error));
        let found =
            if host.is_server() { Predecessor::of_this_process().map_err(predecessor_gone)? } else { None };
        // Once sockets are open, clients may wait in their queues. Then a signal stops the server in order after it has started.
        check_not_stopped()?;
        let changes = Arc::new(Changes::begin());
        let mut paused = Vec::new();
        let (sockets, lock, mut predecessor) = match found {
            Some((mut predecessor, mut offered)) => {
                let mut sockets = Sockets::open(&config, &mut offered)?;
                drop(offered);
                let mut taken = predecessor.take_over(&mut sockets.listeners).map_err(predecessor_gone)?;
                // The predecessor has closed nothing, and goes on.
                check_not_stopped()?;
                let lock = taken.lock(&config.data)?;
                paused = taken.paused;
                (sockets, lock, Some(predecessor))
            }
            None => {
                let (sockets, lock) = open(&host, &config)?;
                (sockets, lock, None)
            }
        };
        // Threads are made before any message is taken: if a thread cannot be made, nothing has begun.
        let (hand, begin) = sync_channel::<(Control, Signals)>(1);
        let control_thread = spawn("control".to_owned(), move || {
            begin.recv().is_ok_and(|(control, signals)| control.run(signals))
        })?;
        let check_thread = CheckThread::start()?;
        let admin_tokens = config.admin_tokens.as_ref().map(ServedTokens::of_file);
        let admin_sockets = AdminSockets { all: sockets.admin.as_ref(), probes: sockets.probe.as_ref() };
        let admin = Admin::start(admin_sockets, admin_tokens)?;
        let start = Start {
            config: &config,
            listeners: sockets.listeners.clone(),
            changes: &changes,
            is_strict: true,
        };
        let release = || match &mut predecessor {
            Some(predecessor) => predecessor.release(&sockets.listeners).map_err(StartError::Upgrade),
            None => Ok(()),
        };
        let running = match Running::start(start, &mut paused, release) {
            Ok(running) => running,
            Err(error) => {
                admin.into_iter().for_each(Admin::end);
                return Err(error);
            }
        };
        let listeners = running.parts.listeners.iter();
        let addresses = listeners.map(|listener| listener.group.local_address().clone()).collect();
        let (stop, current) = (signals.asking(), CurrentParts::default());
        current.set(&running.parts);
        let control = Control {
            parts: watch::Sender::new(Arc::clone(&running.parts)),
            current: current.clone(),
            running: Some(running),
            loaded: config.clone(),
            config,
            host,
            sockets,
            lock: Some(lock),
            predecessor,
            changes,
            admin,
            check_thread,
            doubts: Doubts::default(),
        };
        // The thread waits for exactly this value.
        let _taken = hand.send((control, signals));
        Ok(Server { control: Some(control_thread), stop, current, addresses })
    }

    /// Where it listens, in the order of the configuration; with the ports that the system chose for port 0.
    #[must_use]
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// What `bbq status --json` shows. `None` when the server has ended: a defect or a signal may end it.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        self.current.parts().map(|parts| parts.status())
    }

    /// Stops the server: takes what clients have sent, writes it to disk, and gives the sinks and handlers `drain_timeout_seconds`
    /// to handle everything. What they do not take stays in the spool for the next start. A handler that does not return by then is
    /// left behind in its thread. Returns `true` if nothing went wrong. To be called from any thread but those of handlers.
    pub fn stop(self) -> bool {
        self.stop.notify_one();
        self.wait()
    }

    /// Waits until the server has ended. Returns `true` if nothing went wrong.
    #[must_use]
    pub fn wait(mut self) -> bool {
        self.join()
    }

    fn join(&mut self) -> bool {
        self.control.take().is_none_or(|control| control.join().unwrap_or(false))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.notify_one();
        self.join();
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

/// Takes the data directory and opens the sockets of a server that replaces no other one.
fn open(host: &Host, config: &Config) -> Result<(Sockets, DirectoryLock), StartError> {
    let lock = DirectoryLock::take(&config.data)?;
    let activated = if host.is_server() { activated() } else { Ok(Vec::new()) };
    let mut offered = activation::offered(activated.map_err(StartError::Activation)?)?;
    let sockets = Sockets::open(config, &mut offered)?;
    activation::refuse_rest(&offered)?;
    Ok((sockets, lock))
}
