//! Several handlers with one name.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;

use bbq_client::Sender;
use bbq_server::{Address, HandlerError, Messages};

use crate::support::{ENOUGH, PATIENCE, builder, problem, send, wait_until};

const WORKERS: usize = 4;
const STREAMS: usize = 8;
const MESSAGES: u64 = 20_000;

/// Each stream in order and complete, while its lanes are spread over threads.
#[test]
fn a_pool_keeps_the_order_of_each_stream() {
    let directory = tempfile::tempdir().unwrap();
    let (tell, told) = sync_channel(ENOUGH);
    let make = move |index: usize| {
        let tell = tell.clone();
        move |messages: Messages<'_>| -> Result<(), HandlerError> {
            for message in messages {
                let lane = message.lane as usize;
                assert_eq!(lane % 3, index, "lane {lane} is not of this handler");
                tell.send((message.stream, message.sequence, String::from_utf8(message.bytes.to_vec())?))?;
            }
            Ok(())
        }
    };
    let server = builder(directory.path())
        .listen("bbq+tcp://127.0.0.1:0")
        .workers(WORKERS)
        .handlers("pool", 3, make)
        .start()
        .unwrap();
    let Some(Address::Tcp(address)) = server.addresses().get(1) else { panic!("no address") };
    std::thread::scope(|scope| {
        for stream in 0..STREAMS {
            let server = format!("bbq://{address}").parse().unwrap();
            scope.spawn(move || {
                let sender = Sender::builder().server(server).start().unwrap();
                for number in 0..MESSAGES {
                    let message = format!("{stream} {number}");
                    sender.send(message.as_bytes()).unwrap();
                }
                sender.flush(PATIENCE).unwrap();
            });
        }
    });
    assert!(server.stop());
    let mut next: HashMap<_, (u64, String)> = HashMap::new();
    for (stream, sequence, text) in told {
        let (of_stream, number) = text.split_once(' ').unwrap();
        let (before, name) = next.entry(stream).or_insert_with(|| (0, of_stream.to_owned()));
        assert_eq!((number.parse(), sequence), (Ok(*before), *before + 1), "stream {of_stream}");
        assert_eq!(name, of_stream);
        *before += 1;
    }
    assert_eq!(next.len(), STREAMS);
    assert!(next.values().all(|(messages, _)| *messages == MESSAGES), "{next:?}");
}

/// One fails for ever, one hangs; the lanes of the others go on.
#[test]
fn a_handler_of_a_pool_holds_up_its_own_lanes_only() {
    let directory = tempfile::tempdir().unwrap();
    let (tell, told) = sync_channel(ENOUGH);
    let (let_go, held) = sync_channel::<()>(1);
    let held = Arc::new(Mutex::new(held));
    let has_hung = Arc::new(AtomicBool::new(false));
    let make = {
        let has_hung = Arc::clone(&has_hung);
        move |index: usize| {
            let (tell, held, has_hung) = (tell.clone(), Arc::clone(&held), Arc::clone(&has_hung));
            move |messages: Messages<'_>| -> Result<(), HandlerError> {
                match index {
                    0 => return Err(HandlerError::retry("on purpose")),
                    1 => {
                        has_hung.store(true, Ordering::Relaxed);
                        let _ended = held.lock().unwrap().recv();
                    }
                    _ => messages.into_iter().try_for_each(|message| tell.send(message.lane))?,
                }
                Ok(())
            }
        }
    };
    let server = builder(directory.path())
        .workers(3)
        .set("drain_timeout_seconds", "0")
        .handlers("pool", 3, make)
        .start()
        .unwrap();
    // Connections are spread over the workers, so some come to each lane soon.
    wait_until("every handler has got something", || {
        send(&server, (0..100).map(|number| number.to_string()));
        has_hung.load(Ordering::Relaxed) && problem(&server).is_some() && told.try_recv().is_ok()
    });
    while told.try_recv().is_ok() {}
    // Far more than waits at a desk: groups of the lanes that stand do not take the place of others.
    for _ in 0..500 {
        send(&server, (0..10).map(|number| number.to_string()));
    }
    let mut got = 0;
    wait_until("the third lane goes on", || {
        send(&server, ["x".to_owned()]);
        got += told.try_iter().inspect(|lane| assert_eq!(*lane, 2)).count();
        got > 1000
    });
    assert!(problem(&server).is_some_and(|why| why.contains("on purpose")), "the others do not hide it");
    assert!(server.stop());
    drop(let_go);
}
