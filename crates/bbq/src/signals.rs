//! Signals that end a command in order.

use std::ffi::c_int;

use anyhow::Context as _;
use signal_hook::iterator::Signals;
use tokio::sync::oneshot;

/// Completes with the number of the first of these signals. A second one has its default action: standard output may take nothing.
pub(crate) fn first_of(numbers: &[c_int]) -> anyhow::Result<oneshot::Receiver<u8>> {
    let mut signals = Signals::new(numbers).context("cannot listen for signals")?;
    let (tell, signal) = oneshot::channel();
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let mut tell = Some(tell);
        for number in signals.forever() {
            match tell.take() {
                // An error means that the command has ended.
                Some(tell) => drop(tell.send(u8::try_from(number).unwrap_or_default())),
                None => drop(signal_hook::low_level::emulate_default_handler(number).ok()),
            }
        }
    })?;
    Ok(signal)
}
