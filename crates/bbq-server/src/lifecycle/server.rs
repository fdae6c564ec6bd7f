//! The server as a whole: everything is opened before anything is served, and a start that fails leaves nothing behind.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;

use bbq_listen::{activated, return_freed_memory};
use bbq_spool::DirectoryLock;
use tokio::sync::watch;

use crate::access::ServedTokens;
use crate::config::{Config, ConfigSource};
use crate::error::StartError;
use crate::lifecycle::activation;
use crate::lifecycle::control::Control;
use crate::lifecycle::listeners::Sockets;
use crate::lifecycle::panics;
use crate::lifecycle::running::{Running, Start};
use crate::lifecycle::signals::Signals;
use crate::lifecycle::threads::spawn;
use crate::lifecycle::upgrade::{Predecessor, Program};
use crate::observe::admin::Admin;
use crate::observe::changes::Changes;
use crate::observe::check_thread::CheckThread;

/// A running server.
pub struct Server {
    control: JoinHandle<bool>,
}

impl Server {
    /// Opens what the configuration names and starts serving. Returns once every listener is open. Sockets that systemd or
    /// another server's upgrade hands over are adopted.
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
        return_freed_memory();
        panics::notice();
        let check_not_stopped = || if signals.is_stop_asked() { Err(StartError::Stopped) } else { Ok(()) };
        // The predecessor may have ended by the same signal.
        let predecessor_gone = |error| check_not_stopped().err().unwrap_or(StartError::Upgrade(error));
        let predecessor = Predecessor::of_this_process().map_err(predecessor_gone)?;
        // Once sockets are open, clients may wait in their queues. Then a signal stops the server in order after it has started.
        check_not_stopped()?;
        let changes = Arc::new(Changes::new());
        let mut paused = Vec::new();
        let (sockets, lock, mut predecessor) = match predecessor {
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
                let lock = DirectoryLock::take(&config.data)?;
                let mut offered = activation::offered(activated().map_err(StartError::Activation)?)?;
                let sockets = Sockets::open(&config, &mut offered)?;
                activation::refuse_rest(&offered)?;
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
        let admin =
            sockets.admin.as_ref().map(|listener| Admin::start(listener, admin_tokens)).transpose()?;
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
                if let Some(admin) = admin {
                    admin.end();
                }
                return Err(error);
            }
        };
        let control = Control {
            parts: watch::Sender::new(Arc::clone(&running.parts)),
            running: Some(running),
            loaded: config.clone(),
            config,
            source,
            program,
            sockets,
            lock: Some(lock),
            predecessor,
            changes,
            admin,
            check_thread,
        };
        // The thread waits for exactly this value.
        let _taken = hand.send((control, signals));
        Ok(Server { control: control_thread })
    }

    /// Waits until the server has ended. Returns `true` if nothing went wrong.
    #[must_use]
    pub fn wait(self) -> bool {
        self.control.join().unwrap_or(false)
    }
}
