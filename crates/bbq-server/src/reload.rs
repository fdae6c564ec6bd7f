//! What a reload makes of two configurations: which sockets stay, which come, and what cannot be changed while the process
//! runs.
//!
//! It opens new sockets and touches nothing else; control does the rest, as a restart in place.

use std::sync::Arc;

use tracing::warn;

use crate::config::{Config, ListenSpec};
use crate::listeners::Listener;
use crate::server::StartError;

/// What to go on with.
pub(crate) struct Plan {
    /// What of the new configuration can be had.
    pub(crate) config: Config,
    pub(crate) listeners: Vec<Listener>,
    /// By the place of the old listeners: whether queue and connections stay.
    pub(crate) kept: Arc<[bool]>,
}

/// Keys whose change needs another process.
fn fixed(old: &Config, new: &Config) -> Vec<&'static str> {
    let changes = [("data", old.data != new.data), ("admin", old.admin != new.admin)];
    changes.into_iter().filter(|(_, changed)| *changed).map(|(key, _)| key).collect()
}

/// Opens what is new; every change that must wait is named in the log.
pub(crate) fn plan(old: &Config, new: Config, open: &[Listener]) -> Result<Plan, StartError> {
    for key in fixed(old, &new) {
        warn!(key, "needs an upgrade (SIGUSR2) or a restart; it stays as it is");
    }
    let mut config = Config { data: old.data.clone(), admin: old.admin, ..new };
    let mut listeners = Vec::with_capacity(config.listen.len());
    let mut left: Vec<&Listener> = open.iter().collect();
    for place in 0..config.listen.len() {
        let spec = &config.listen[place];
        let found = left.iter().position(|listener| listener.spec.address == spec.address);
        let Some(listener) = found.map(|place| left.remove(place)) else {
            listeners.push(Listener::open(&config, spec, &mut Vec::new())?);
            continue;
        };
        for key in unchanged_in_a_socket(old, &config, &listener.spec, spec) {
            warn!(
                listener = spec.text,
                key, "needs an upgrade (SIGUSR2) or a restart; its sockets stay as they are"
            );
        }
        let spec = Arc::new(spec.clone());
        listeners.push(Listener { spec, ..listener.clone() });
    }
    // As the sockets are; so a later reload names it again.
    for (spec, listener) in config.listen.iter_mut().zip(&listeners) {
        let before = open.iter().find(|before| Arc::ptr_eq(&before.group, &listener.group));
        if let Some(before) = before {
            spec.distribution = Some(old.distribution_of(&before.spec));
            spec.steering = before.spec.steering.clone();
            spec.backlog = before.spec.backlog;
            spec.receive_buffer_bytes = before.spec.receive_buffer_bytes;
        }
    }
    let kept = open.iter().map(|before| config.listen.iter().any(|spec| spec.source == before.spec.source));
    let kept = kept.collect();
    Ok(Plan { config, listeners, kept })
}

fn unchanged_in_a_socket(
    old_config: &Config,
    new_config: &Config,
    old: &ListenSpec,
    new: &ListenSpec,
) -> Vec<&'static str> {
    let changes = [
        ("distribution", old_config.distribution_of(old) != new_config.distribution_of(new)),
        ("steering", old.steering != new.steering),
        ("backlog", old.backlog != new.backlog),
        ("receive_buffer_bytes", old.receive_buffer_bytes != new.receive_buffer_bytes),
    ];
    changes.into_iter().filter(|(_, changed)| *changed).map(|(key, _)| key).collect()
}
