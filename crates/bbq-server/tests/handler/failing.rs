//! Handlers that fail, panic or hang.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};

use bbq_server::{HandlerError, Messages};

use crate::support::{ENOUGH, PATIENCE, builder, delivered, problem, send, wait_until};

/// Fails in `failing`'s way until `works`, and tells each message of what it has handled.
fn fails(failing: fn() -> Result<(), HandlerError>) {
    let directory = tempfile::tempdir().unwrap();
    let (works, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (tell, told) = sync_channel(ENOUGH);
    let handler = {
        let (works, calls) = (Arc::clone(&works), Arc::clone(&calls));
        move |messages: Messages<'_>| -> Result<(), HandlerError> {
            calls.fetch_add(1, Ordering::Relaxed);
            if !works.load(Ordering::Relaxed) {
                failing()?;
            }
            for message in messages {
                tell.send(String::from_utf8(message.bytes.to_vec())?)?;
            }
            Ok(())
        }
    };
    let server = builder(directory.path()).handler("all", handler).start().unwrap();
    send(&server, (0..10).map(|number| number.to_string()));
    wait_until("it is tried again", || calls.load(Ordering::Relaxed) >= 3);
    wait_until("the status shows it", || problem(&server).is_some_and(|why| why.contains("on purpose")));
    assert_eq!(delivered(&server), 0);
    works.store(true, Ordering::Relaxed);
    let got: Vec<String> = (0..10).map(|_| told.recv_timeout(PATIENCE).unwrap()).collect();
    assert_eq!(got, (0..10).map(|number| number.to_string()).collect::<Vec<_>>());
    wait_until("the problem is over", || problem(&server).is_none() && delivered(&server) == 10);
    assert!(server.stop());
    assert!(told.try_recv().is_err(), "nothing comes twice");
}

#[test]
fn an_error_is_shown_and_the_messages_come_again() {
    fails(|| Err(HandlerError::retry("failed on purpose")));
}

#[test]
fn a_panic_is_shown_and_the_messages_come_again() {
    fails(|| panic!("panicked on purpose"));
}

#[test]
fn a_handler_that_hangs_holds_up_neither_another_one_nor_a_stop() {
    let directory = tempfile::tempdir().unwrap();
    let (tell, told) = sync_channel(ENOUGH);
    let (let_go, held) = sync_channel::<()>(1);
    let held = Mutex::new(held);
    let (entered, is_entered) = sync_channel(ENOUGH);
    let hangs = move |_: Messages<'_>| -> Result<(), HandlerError> {
        entered.send(())?;
        // Until the test ends.
        let _ended = held.lock().unwrap().recv();
        Ok(())
    };
    let takes = move |messages: Messages<'_>| -> Result<(), HandlerError> {
        tell.send(messages.len())?;
        Ok(())
    };
    let server = builder(directory.path())
        .set("drain_timeout_seconds", "0")
        .handler("hangs", hangs)
        .handler("takes", takes)
        .start()
        .unwrap();
    send(&server, ["one".to_owned()]);
    is_entered.recv_timeout(PATIENCE).unwrap();
    assert_eq!(told.recv_timeout(PATIENCE), Ok(1));
    assert!(server.stop(), "it returns, and nothing is lost");
    drop(let_go);
    // What was given to the handler that hung comes again.
    let (tell, told) = sync_channel(ENOUGH);
    let again = move |messages: Messages<'_>| -> Result<(), HandlerError> {
        tell.send(messages.map(|message| message.bytes.to_vec()).collect::<Vec<_>>())?;
        Ok(())
    };
    let server = builder(directory.path()).handler("hangs", again).start().unwrap();
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), [b"one"]);
    drop(server);
}
