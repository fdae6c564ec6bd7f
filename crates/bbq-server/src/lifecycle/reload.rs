//! Compares two configurations for a reload: which sockets stay, which are new, and what cannot change while the process runs.
//!
//! A reload opens new sockets here, and steers the open ones. Control does the remaining steps, as a restart in place.

use std::sync::Arc;

use bbq_config::{Config, FILE_KEYS, OnReload, Origins};
use bbq_intake::{DISTRIBUTION, ListenSpec, UnixFile, kept_options};
use bbq_listen::{ListenError, Steering};
use bbq_observe::Listener;
use tracing::warn;

use crate::error::StartError;
use crate::lifecycle::listeners;

/// The result of a comparison: what the server goes on with.
pub(crate) struct Plan {
    /// The part of the new configuration that can take effect.
    pub(crate) config: Config,
    pub(crate) listeners: Vec<Listener>,
    /// By the index of the old listeners: whether queue and connections stay.
    pub(crate) kept: Arc<[bool]>,
}

/// Whether a plan changes only which worker a sender gets. Such a change needs no pause.
pub(crate) fn only_steers(old: &Config, planned: &Config) -> bool {
    let mut as_before = planned.clone();
    for (spec, before) in as_before.listen.iter_mut().zip(&old.listen) {
        spec.text.clone_from(&before.text);
        spec.steering = before.steering.clone();
        // A default is the same as its value written out.
        spec.distribution = before.distribution;
    }
    as_before == *old && !needs_monitor(old, planned)
}

/// Whether steering by load begins where no stall monitor runs, which workers get at their start.
fn needs_monitor(old: &Config, planned: &Config) -> bool {
    let by_load = |config: &Config| config.listen.iter().any(|spec| spec.steering == Steering::Load);
    old.stall_threshold.is_none() && by_load(planned) && !by_load(old)
}

/// Steers listeners that are served, one for each of `specs`: all of them, or none.
pub(crate) fn steer(open: &[Listener], specs: &[ListenSpec]) -> Result<(), ListenError> {
    for (place, (listener, spec)) in open.iter().zip(specs).enumerate() {
        if let Err(refused) = listener.group.set_steering(&spec.steering) {
            for steered in &open[..place] {
                // The kernel took this steering a moment ago.
                let _as_before = steered.group.set_steering(&steered.spec().steering);
            }
            return Err(refused);
        }
    }
    for (listener, spec) in open.iter().zip(specs) {
        listener.set_spec(spec.clone());
    }
    Ok(())
}

/// Keys whose change needs another process.
fn fixed(old: &Config, new: &Config) -> Vec<&'static str> {
    let waiting = FILE_KEYS.iter().filter(|known| known.on_reload == OnReload::Waits);
    waiting.map(|known| known.option.key).filter(|key| old.value_of(key) != new.value_of(key)).collect()
}

/// Names the keys whose change needs another process, as the end of a text.
pub(crate) fn waiting(old: &Config, new: &Config) -> String {
    match fixed(old, new).as_slice() {
        [] => String::new(),
        keys => format!("; {} needs an upgrade (SIGUSR2) or a restart, and stays as it is", keys.join(", ")),
    }
}

/// Where the values come from that are in force after a reload.
pub(crate) fn origins(old: &Config, new: &Config) -> Origins {
    new.origins.clone().keeping(&old.origins, &fixed(old, new))
}

/// Opens the new listeners, and logs every change that must wait.
pub(crate) fn plan(old: &Config, new: Config, open: &[Listener]) -> Result<Plan, StartError> {
    for key in fixed(old, &new) {
        warn!(key, "needs an upgrade (SIGUSR2) or a restart; it stays as it is");
    }
    let mut config = Config {
        data: old.data.clone(),
        steering_pins: old.steering_pins.clone(),
        admin: old.admin,
        admin_tokens: old.admin_tokens.clone(),
        probe: old.probe,
        origins: origins(old, &new),
        ..new
    };
    let mut listeners = Vec::with_capacity(config.listen.len());
    let mut left: Vec<&Listener> = open.iter().collect();
    for place in 0..config.listen.len() {
        let spec = &config.listen[place];
        let found = left.iter().position(|listener| listener.spec().address == spec.address);
        let Some(listener) = found.map(|place| left.remove(place)) else {
            listeners.push(listeners::open(&config, spec, &mut Vec::new())?);
            continue;
        };
        let before = listener.spec();
        for key in unchanged_in_a_socket(old, &config, &before, spec) {
            warn!(
                listener = spec.source,
                key, "needs an upgrade (SIGUSR2) or a restart; its sockets stay as they are"
            );
        }
        // The configuration in force describes the open sockets, so a later reload names the difference again.
        let has_other_sockets = old.distribution_of(&before) != config.distribution_of(spec);
        let spec = &mut config.listen[place];
        if has_other_sockets {
            spec.steering = before.steering.clone();
        }
        spec.distribution = Some(old.distribution_of(&before));
        spec.backlog = before.backlog;
        spec.defer_accept = before.defer_accept;
        spec.silence = before.silence;
        spec.receive_buffer_bytes = before.receive_buffer_bytes;
        if let Some(UnixFile { mode, owner }) = spec.unix_file
            && before.unix_file != spec.unix_file
            && listener.group.owns_file()
        {
            let set = listener.group.set_file_options(Some(mode), owner);
            set.map_err(|source| StartError::Listen { spec: spec.text.clone(), source })?;
        }
        listeners.push(listeners::with_spec(listener, spec.clone()));
    }
    let kept = open.iter().map(|before| config.listen.iter().any(|spec| spec.head() == before.spec().head()));
    let kept = kept.collect();
    Ok(Plan { config, listeners, kept })
}

fn unchanged_in_a_socket(
    old_config: &Config,
    new_config: &Config,
    old: &ListenSpec,
    new: &ListenSpec,
) -> Vec<&'static str> {
    let has_other_sockets = old_config.distribution_of(old) != new_config.distribution_of(new);
    let has_other_steering = has_other_sockets && old.steering != new.steering;
    let changes = [(DISTRIBUTION, has_other_sockets), ("steering", has_other_steering)];
    let changes = changes.into_iter().filter(|(_, changed)| *changed).map(|(key, _)| key);
    changes.chain(kept_options(old, new)).collect()
}
