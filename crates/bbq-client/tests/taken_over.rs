//! If this fails, a sender whose stream another one has taken over fights for it without end, or one gives up because of a hello
//! of its own that a stuck server read late.

#![expect(clippy::unwrap_used, reason = "a test's helpers panic, too")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use bbq_client::{AckLevel, Reconnect, SendError, Sender};
use bbq_wire::session::{Refusal, RefusalCode, Welcome};

const PATIENCE: Duration = Duration::from_secs(30);

/// What a server does with a connection.
enum Answer {
    /// Ends it before it has answered.
    Nothing,
    /// Refuses, instead of the welcome.
    Refuse(RefusalCode),
    /// Welcomes, and then says that the stream was taken over.
    WelcomeAndTakeOver,
    /// Welcomes, and acknowledges the one record.
    Serve,
}

impl Answer {
    fn give(&self, mut client: TcpStream) {
        // The hello, or a part of it: enough to be sure that it was sent.
        let _hello = client.read(&mut [0; 64]).unwrap();
        let mut answer = Vec::new();
        let welcome = |last_sequence, answer: &mut Vec<u8>| {
            Welcome {
                last_sequence,
                ack: AckLevel::Durable,
                body_bytes_max: 1 << 20,
                message_bytes_max: 1 << 20,
                server: String::new(),
            }
            .encode(answer);
        };
        match self {
            Answer::Nothing => return,
            Answer::Refuse(code) => Refusal::new(*code, "refused by the test").encode(&mut answer),
            Answer::WelcomeAndTakeOver => {
                welcome(0, &mut answer);
                Refusal::new(RefusalCode::TakenOver, "taken over").encode(&mut answer);
            }
            Answer::Serve => welcome(1, &mut answer),
        }
        client.write_all(&answer).unwrap();
        // Until the client has left.
        let _sent = client.read_to_end(&mut Vec::new());
    }
}

/// What becomes of one record when a server answers the connections so, in turn.
fn outcome(answers: Vec<Answer>) -> Result<(), SendError> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let wait = Duration::from_millis(1);
    let sender = Sender::builder()
        .server(listener.local_addr().unwrap().to_string().parse().unwrap())
        .reconnect(Reconnect { attempts: 1, attempts_min: 1, wait, wait_max: wait })
        .linger(Duration::ZERO)
        .close_timeout(Duration::ZERO)
        .start()
        .unwrap();
    sender.send(b"message").unwrap();
    // It ends with the process when the client does not come so often.
    let _serving = std::thread::spawn(move || {
        for answer in answers {
            answer.give(listener.accept().unwrap().0);
        }
    });
    sender.flush(PATIENCE)
}

fn is_taken_over(outcome: &Result<(), SendError>) -> bool {
    matches!(outcome, Err(SendError::Refused { refusal, .. }) if refusal.code == RefusalCode::TakenOver)
}

#[test]
fn a_hello_that_was_refused_for_now_is_answered() {
    let answers = vec![
        Answer::Refuse(RefusalCode::Busy),
        Answer::Refuse(RefusalCode::Busy),
        Answer::WelcomeAndTakeOver,
        Answer::Serve,
    ];
    let outcome = outcome(answers);
    assert!(is_taken_over(&outcome), "{outcome:?}");
}

#[test]
fn a_hello_that_was_refused_for_good_is_answered() {
    let outcome = outcome(vec![Answer::Refuse(RefusalCode::TakenOver), Answer::Serve]);
    assert!(is_taken_over(&outcome), "{outcome:?}");
}

#[test]
fn a_hello_that_nobody_answered_may_come_late_once() {
    let answers = vec![Answer::Nothing, Answer::WelcomeAndTakeOver, Answer::Serve];
    outcome(answers).unwrap();
    let answers =
        vec![Answer::Nothing, Answer::WelcomeAndTakeOver, Answer::WelcomeAndTakeOver, Answer::Serve];
    let second = outcome(answers);
    assert!(is_taken_over(&second), "{second:?}");
}

#[test]
fn a_long_time_without_answers_is_no_licence_to_fight() {
    let after = |taken_over: usize| {
        let answers = (0..100).map(|_| Answer::Nothing);
        let answers = answers.chain((0..taken_over).map(|_| Answer::WelcomeAndTakeOver));
        outcome(answers.chain([Answer::Serve]).collect())
    };
    after(16).unwrap();
    let more = after(17);
    assert!(is_taken_over(&more), "{more:?}");
}
