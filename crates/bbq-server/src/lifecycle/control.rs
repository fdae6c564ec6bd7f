//! The control thread: signals, checkpoints, and the order of steps at a stop, a reload and an upgrade.
//!
//! A reload and an upgrade are both a pause. First the sinks come to a hold, or the change is refused. Then everything except the
//! sockets ends in order (`running`), and this process starts again with the new configuration, or the new process starts.
//! Meanwhile, connections wait in the kernel's queue.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bbq_config::Config;
use bbq_intake::{ListenSpec, PausedConnection};
use bbq_observe::{Admin, Changes, CheckThread, Listener, Parts, ReloadRequest, ReloadRequests};
use bbq_spec::with_sources;
use bbq_spool::DirectoryLock;
use rustix::process::{Pid, Signal, kill_process};
use tokio::runtime::Runtime;
use tokio::sync::{oneshot, watch};
use tracing::{error, info, warn};

use crate::lifecycle::current::CurrentParts;
use crate::lifecycle::doubt::{Change, Doubts};
use crate::lifecycle::host::Host;
use crate::lifecycle::listeners::Sockets;
use crate::lifecycle::notify;
use crate::lifecycle::panics;
use crate::lifecycle::parts::check_room;
use crate::lifecycle::reload;
use crate::lifecycle::running::{Halt, Halted, Running, Start};
use crate::lifecycle::signals::{Received, Signals};
use crate::lifecycle::upgrade::{Predecessor, Successor};
use crate::sinks::KINDS;

/// How often drops are saved and threads are checked.
const TICK: Duration = Duration::from_secs(1);

/// How often a start is tried behind a pause, and the pause between two tries. Clients wait meanwhile.
const START_TRIES: u32 = 5;
const START_PAUSE: Duration = Duration::from_millis(200);

pub(crate) struct Control {
    /// `None` during a pause, and after a pause that could not be ended.
    pub(crate) running: Option<Running>,
    /// The parts of `running`, for the admin and `check_thread`. Dropped before the lock, as they hold sockets with files.
    pub(crate) parts: watch::Sender<Arc<Parts>>,
    /// The same for the program of the process.
    pub(crate) current: CurrentParts,
    /// The configuration in force.
    pub(crate) config: Config,
    /// The configuration that was read last; some of its changes may wait for an upgrade.
    pub(crate) loaded: Config,
    pub(crate) host: Host,
    pub(crate) sockets: Sockets,
    /// Held until the end, except during an upgrade to a version that takes its own.
    pub(crate) lock: Option<DirectoryLock>,
    /// The process that this process replaces.
    pub(crate) predecessor: Option<Predecessor>,
    pub(crate) changes: Arc<Changes>,
    /// `None` when the admin and the address for probes are off.
    pub(crate) admin: Option<Admin>,
    pub(crate) check_thread: CheckThread,
    pub(crate) doubts: Doubts,
}

/// Why serving ended.
enum Ending {
    /// By a signal or a failed thread; `true` when nothing failed.
    Stop { in_order: bool },
    /// Another process serves, the one with this id.
    HandedOver(u32),
    /// A pause could not be ended. The reason is in the log.
    Lost,
}

/// A successor that is being prepared by a thread.
type Preparation = Option<oneshot::Receiver<Result<Successor, String>>>;

async fn prepared(preparation: &mut Preparation) -> Result<Successor, String> {
    let Some(receiver) = preparation else { return std::future::pending().await };
    let result = receiver.await;
    *preparation = None;
    result.unwrap_or_else(|_| Err("the thread that prepares it failed".to_owned()))
}

/// The next request of a client of the admin; never if there is no admin.
async fn asked_to_reload(requests: &mut Option<ReloadRequests>) -> ReloadRequest {
    let request = match requests {
        Some(requests) => requests.recv().await,
        None => None,
    };
    match request {
        Some(request) => request,
        None => std::future::pending().await,
    }
}

impl Control {
    /// Runs until a signal, then ends everything in order. Returns `true` when nothing went wrong.
    pub(crate) fn run(self, signals: Signals) -> bool {
        let Signals { runtime, received, is_stop_asked } = signals;
        let (in_order, successor) = self.run_to_end(&runtime, received);
        // Last: a signal that comes from here on meets a process that has ended.
        if let Some(pid) = successor.filter(|_| is_stop_asked.load(Ordering::Relaxed)) {
            // Who asked this process to stop meant the server.
            info!(
                pid,
                "a signal asked this process to stop while it handed over; the new process is asked to stop"
            );
            ask_to_stop(pid);
        }
        in_order
    }

    /// Returns whether nothing went wrong, and the process that serves now, if there is one.
    fn run_to_end(mut self, runtime: &Runtime, mut received: Received) -> (bool, Option<u32>) {
        let ended = match runtime.block_on(self.serve(&mut received)) {
            Ending::HandedOver(pid) => (true, Some(pid)),
            Ending::Lost => (false, None),
            Ending::Stop { in_order } => {
                self.host.notify(notify::STOPPING);
                let stop = Halt::Stop { drain_timeout: self.config.drain_timeout };
                let ended = self.running.take().is_none_or(|running| running.end(&stop).in_order);
                (in_order && ended, None)
            }
        };
        // Last, so that `bbq status` works during the stop.
        if let Some(admin) = self.admin.take() {
            admin.end();
        }
        self.check_thread.end();
        ended
    }

    async fn serve(&mut self, signals: &mut Received) -> Ending {
        let parts = self.parts.subscribe();
        if let Some(admin) = &self.admin {
            admin.serve(&parts);
        }
        if let Some(predecessor) = self.predecessor.take() {
            predecessor.wait_ended();
        }
        self.log_ready();
        self.host.notify(notify::READY);
        self.check_thread.begin(&parts);
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut preparation: Preparation = None;
        let mut reloads = self.admin.as_mut().and_then(Admin::take_reloads);
        loop {
            let Some(now) = &self.running else { return Ending::Lost };
            tokio::select! {
                signal = signals.stop.next() => {
                    match now.parts.without_room() {
                        None => info!(signal, "stopping; messages in memory are written to disk first, unless their lane has failed"),
                        Some(why) => warn!(
                            signal, why,
                            "stopping while there is no room: messages in memory are written only if room is made within seconds"
                        ),
                    }
                    return Ending::Stop { in_order: true };
                }
                () = signals.hangup.next() => {
                    // How it ended is in the log.
                    let _ended = self.reload(preparation.is_some(), false).await;
                }
                request = asked_to_reload(&mut reloads) => {
                    let ended = self.reload(preparation.is_some(), request.anyway).await;
                    // Whoever asked may be gone.
                    let _told = request.tell.send(ended);
                }
                () = signals.upgrade.next() => self.prepare_upgrade(&mut preparation),
                thread = panics::fatal() => {
                    error!(thread, "a thread panicked; stopping the server");
                    return Ending::Stop { in_order: false };
                }
                successor = prepared(&mut preparation) => match ready_to_hand_over(now, successor).await {
                    Ok(successor) => {
                        // From here on the accept queue belongs to the successor.
                        if let Some(admin) = &mut self.admin {
                            admin.pause().await;
                        }
                        let pid = successor.pid();
                        if self.hand_over(successor) {
                            return Ending::HandedOver(pid);
                        }
                        if let Some(admin) = &self.admin {
                            admin.serve(&parts);
                        }
                    }
                    Err(why) => self.refuse(Change::Upgrade, &why),
                },
                _ = tick.tick() => if !run_periodic_work(now) { return Ending::Stop { in_order: false } },
            }
        }
    }

    /// Says where the server can be asked.
    fn log_ready(&self) {
        let address = self.sockets.admin.as_ref().and_then(|listener| listener.local_addr().ok());
        let page = address.map(|address| format!("http://{address}/"));
        let probe = self.sockets.probe.as_ref().and_then(|listener| listener.local_addr().ok());
        let probe = probe.map(tracing::field::display);
        let address = address.map_or_else(|| "off".to_owned(), |address| address.to_string());
        info!(pid = std::process::id(), admin = %address, page, probe, "ready");
    }

    /// Handles SIGHUP, and a request of a client of the admin. Meanwhile, connections wait in the kernel's queue. Returns what was done,
    /// or why nothing was.
    async fn reload(&mut self, is_upgrading: bool, anyway: bool) -> Result<String, String> {
        self.host.notify(&notify::reloading());
        // In any case: whoever has moved a file away asks for no more than that.
        if let Some(now) = &self.running {
            now.reopen_outputs();
        }
        let reloaded = self.try_reload(is_upgrading, anyway).await;
        match &reloaded {
            Ok(done) => {
                self.changes.set_refused(None);
                info!("{done}");
                self.serve_files();
            }
            Err(why) => self.refuse(Change::Reload, why),
        }
        self.host.notify(notify::READY);
        reloaded
    }

    async fn try_reload(&mut self, is_upgrading: bool, anyway: bool) -> Result<String, String> {
        if is_upgrading {
            return Err("an upgrade is in progress, and also reads the configuration".to_owned());
        }
        let Host::Server { source, .. } = &self.host else {
            return Err("the program that embeds this server holds its configuration; restart that program"
                .to_owned());
        };
        let new = source.load(&KINDS).map_err(|error| error.to_string())?;
        self.doubts.check(Change::Reload, &self.config, &new, anyway, Instant::now())?;
        if new == self.loaded {
            // Equal, but for what the files of certificates hold, and where values stand.
            self.config.origins = reload::origins(&self.config, &new);
            self.show_configuration();
            self.loaded = new;
            return Ok("reloaded: nothing has changed".to_owned());
        }
        let Some(now) = &self.running else { return Err("the server is ending".to_owned()) };
        check_room(&now.parts)?;
        let plan = reload::plan(&self.config, new.clone(), &self.sockets.listeners);
        let plan = plan.map_err(|error| with_sources(&error))?;
        let waiting = reload::waiting(&self.config, &new);
        if plan.config == self.config {
            (self.config, self.loaded) = (plan.config, new);
            self.show_configuration();
            return Ok(format!("reloaded: no change that takes effect now{waiting}"));
        }
        if reload::only_steers(&self.config, &plan.config) {
            reload::steer(&self.sockets.listeners, &plan.config.listen)
                .map_err(|error| with_sources(&error))?;
            (self.config, self.loaded) = (plan.config, new);
            self.show_configuration();
            return Ok(format!("reloaded: steering changed without a pause{waiting}"));
        }
        now.hold_sinks().await?;
        let halted = self.pause(&Halt::Pause { kept: plan.kept, keeps_tls: true });
        let before = Before { config: self.config.clone(), listeners: self.sockets.listeners.clone() };
        self.config = plan.config;
        self.sockets.listeners = plan.listeners;
        self.resume_after_pause(halted, Some(before))?;
        self.loaded = new;
        Ok(format!("reloaded{waiting}"))
    }

    /// Shows the configuration in force, which has changed without another start.
    fn show_configuration(&self) {
        if let Some(running) = &self.running {
            running.parts.set_effective(&self.config);
        }
    }

    /// Serves the certificates and tokens that were read with the configuration.
    fn serve_files(&self) {
        if let Some((admin, file)) = self.admin.as_ref().zip(self.loaded.admin_tokens.as_ref())
            && admin.replace_tokens(file)
        {
            info!("new tokens of the admin");
        }
        for listener in &self.sockets.listeners {
            let spec = listener.spec();
            let read = self.loaded.listen.iter().find(|read| read.address == spec.address);
            if let Some((served, file)) =
                listener.tokens.as_ref().zip(read.and_then(|read| read.tokens.as_ref()))
                && served.is_of(&file.path)
                && served.replace(file.tokens.clone(), file.stamp)
            {
                info!(listener = spec.source, "new tokens: those that are no longer in the file are refused");
            }
            let Some((served, read)) = listener.tls.as_ref().zip(read.and_then(|read| read.tls.as_ref()))
            else {
                continue;
            };
            if served.is_of(&read.files, read.application) && served.replace(read.certificates.clone()) {
                info!(listener = spec.source, "new certificate: new connections get it");
            }
        }
    }

    /// Handles SIGUSR2: a thread starts the new program and waits until it is prepared.
    fn prepare_upgrade(&mut self, preparation: &mut Preparation) {
        let Host::Server { program, source } = &self.host else { return };
        if preparation.is_some() {
            warn!("an upgrade is already in progress");
            return;
        }
        // What this program cannot read, the new program may: it says so itself. What a pipe holds can be read once, and is the new
        // program's.
        if source.is_file()
            && let Ok(new) = source.load(&KINDS)
            && let Err(why) = self.doubts.check(Change::Upgrade, &self.config, &new, false, Instant::now())
        {
            return self.refuse(Change::Upgrade, &why);
        }
        let offered = match self.sockets.offer(&self.config) {
            Ok(offered) => offered,
            Err(error) => return self.refuse(Change::Upgrade, &format!("cannot copy the sockets: {error}")),
        };
        let (program, patience) = (program.clone(), self.config.upgrade_timeout);
        let (tell, receiver) = oneshot::channel();
        info!(program = %program, "upgrading");
        let thread = std::thread::Builder::new().name("upgrade".to_owned()).spawn(move || {
            // If the server stops meanwhile, the successor is dropped, which ends its process.
            let _stopping = tell.send(Successor::prepare(&program, &offered, patience));
        });
        match thread {
            Ok(_detached) => *preparation = Some(receiver),
            Err(error) => self.refuse(Change::Upgrade, &format!("cannot start a thread: {error}")),
        }
    }

    /// Returns `true` if the successor serves. If not, this process serves again, unless `self.running` is `None`.
    fn hand_over(&mut self, mut successor: Successor) -> bool {
        let kept = self.sockets.listeners.iter().map(|listener| successor.keeps(&listener.spec())).collect();
        let mut halted = self.pause(&Halt::Pause { kept, keeps_tls: false });
        if !successor.adopts_lock() {
            self.lock = None;
        }
        let listeners = self.sockets.listeners.clone();
        let specs: Vec<Arc<ListenSpec>> = listeners.iter().map(Listener::spec).collect();
        let kernel_seen = halted.kernel_seen.clone();
        let taken = successor.take_over(&specs, &mut halted.paused, kernel_seen, self.lock.as_ref());
        match taken {
            Ok(()) => {
                for listener in listeners.iter().filter(|listener| successor.keeps(&listener.spec())) {
                    listener.group.set_owns_file(false);
                }
                self.host.notify(&notify::main_pid(successor.pid()));
                info!(pid = successor.pid(), "handed over");
                true
            }
            Err(why) => {
                // Ends the new process, so that the lock is this one's alone.
                drop(successor);
                self.refuse(Change::Upgrade, &why);
                self.sign_lock();
                if let Err(why) = self.resume_after_pause(halted, None) {
                    error!(why, "cannot resume after an upgrade that failed");
                }
                false
            }
        }
    }

    /// The new process may have put its id into the lock file.
    fn sign_lock(&self) {
        if let Some(lock) = &self.lock
            && let Err(error) = lock.sign()
        {
            warn!(%error, "the lock file names a process that is gone");
        }
    }

    fn pause(&mut self, pause: &Halt) -> Halted {
        match self.running.take() {
            Some(running) => running.end(pause),
            None => Halted { in_order: false, paused: Vec::new(), kernel_seen: Vec::new() },
        }
    }

    /// Starts again after a pause. If the new configuration fails, the previous one is tried.
    fn resume_after_pause(&mut self, halted: Halted, before: Option<Before>) -> Result<(), String> {
        let mut paused = halted.paused;
        let old = before.as_ref().map_or(&self.sockets.listeners, |before| &before.listeners).clone();
        let seen_of = |listener: &Listener| {
            let place = old.iter().position(|old| Arc::ptr_eq(&old.group, &listener.group));
            place.and_then(|place| halted.kernel_seen.get(place).copied()).unwrap_or(0)
        };
        let resume = |mut listeners: Vec<Listener>| {
            listeners.iter_mut().for_each(|listener| listener.kernel_seen = seen_of(listener));
            listeners
        };
        self.sockets.listeners = resume(std::mem::take(&mut self.sockets.listeners));
        let mut moved = moved(&mut paused, &old, &self.sockets.listeners);
        let Some(before) = before else { return self.start_with_retries(&mut moved) };
        // Only a start with a new configuration may fail because of an output.
        let failed = match self.start(&mut moved, true) {
            Ok(()) => return Ok(()),
            Err(why) => why,
        };
        let mut back = self::moved(&mut moved, &self.sockets.listeners, &before.listeners);
        self.config = before.config;
        self.sockets.listeners = resume(before.listeners);
        match self.start_with_retries(&mut back) {
            Ok(()) => Err(failed),
            Err(why) => Err(format!("{failed}; the previous configuration failed, too: {why}")),
        }
    }

    /// Starts with what has served before. A disk or a system that fails once does not end the server.
    fn start_with_retries(&mut self, paused: &mut Vec<PausedConnection>) -> Result<(), String> {
        let mut started = self.start(paused, false);
        for _ in 1..START_TRIES {
            let Err(why) = &started else { break };
            warn!(why, "cannot start again; trying once more");
            std::thread::park_timeout(START_PAUSE);
            started = self.start(paused, false);
        }
        started
    }

    fn start(&mut self, paused: &mut Vec<PausedConnection>, is_strict: bool) -> Result<(), String> {
        if self.lock.is_none() {
            let lock = DirectoryLock::take(&self.config.data);
            self.lock = Some(lock.map_err(|error| with_sources(&error))?);
        }
        let start = Start {
            config: &self.config,
            listeners: self.sockets.listeners.clone(),
            changes: &self.changes,
            is_strict,
        };
        let started = Running::start(start, paused, || Ok(()));
        let started = started.map_err(|error| with_sources(&error))?;
        let _before = self.parts.send_replace(Arc::clone(&started.parts));
        self.current.set(&started.parts);
        self.running = Some(started);
        Ok(())
    }

    fn refuse(&self, change: Change, why: &str) {
        let change = change.name();
        error!(change, why, "refused; the server continues as before");
        self.changes.set_refused(Some(format!("{change}: {why}")));
    }
}

fn ask_to_stop(pid: u32) {
    let stopped = Pid::from_raw(pid.cast_signed()).map(|process| kill_process(process, Signal::TERM));
    if !matches!(stopped, Some(Ok(()))) {
        error!(pid, "the process cannot be asked to stop");
    }
}

/// The configuration and listeners before a reload.
struct Before {
    config: Config,
    listeners: Vec<Listener>,
}

/// Gives connections the new indices of their listeners. There are no connections of removed listeners, as they were not kept.
fn moved(paused: &mut Vec<PausedConnection>, old: &[Listener], new: &[Listener]) -> Vec<PausedConnection> {
    let place = |connection: PausedConnection| {
        let spec = old.get(connection.listener_index)?.spec();
        let listener_index = new.iter().position(|listener| listener.spec().head() == spec.head())?;
        Some(PausedConnection { listener_index, ..connection })
    };
    paused.drain(..).filter_map(place).collect()
}

/// Makes the sinks hold for a successor that is prepared.
async fn ready_to_hand_over(
    now: &Running,
    successor: Result<Successor, String>,
) -> Result<Successor, String> {
    let successor = successor?;
    check_room(&now.parts)?;
    now.hold_sinks().await?;
    Ok(successor)
}

/// Does what is due each second. Returns `false` when a thread has ended unexpectedly.
fn run_periodic_work(running: &Running) -> bool {
    let parts = &running.parts;
    parts.check_drops();
    parts.check_evenness();
    // Each check of a worker is compared with the previous one, so the first status is right, too.
    parts.check_workers();
    for worker in &parts.workers {
        worker.active_sessions.begin_round();
    }
    for listener in &parts.listeners {
        // Sockets of workers that a reload removed.
        let _some_are_left = listener.group.close_removed();
    }
    running.retention.request_ledger_save();
    if parts.streams.is_checkpoint_due() {
        running.retention.request_checkpoint();
    }
    match running.ended_thread() {
        Some(name) => {
            error!(thread = name, "a thread ended unexpectedly; stopping the server");
            false
        }
        None => true,
    }
}
