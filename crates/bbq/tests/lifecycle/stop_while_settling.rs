//! If this fails, a client whose stream waits for the disk when the server stops is not told to come again, and waits until the server
//! has stopped.

use crate::support::Setup;
use crate::support::fault::Fault;
use crate::support::session::{Answer, Session, batch, hello, stream_id};
use bbq_wire::RefusalCode;

/// Longer than a stop waits for anything.
const FROZEN: &str = "fdatasync:delay_enter=60000000";

#[test]
fn a_hello_that_waits_for_the_disk_is_told_to_come_again() {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]).with(&["--workers", "1"]);
    let server = setup.start();
    let (mut older, known) = Session::open(setup.address(0), stream_id(1));
    assert_eq!(known, 0);
    let frozen = Fault::inject(server.pid(), "lane-0", FROZEN);
    older.write(&batch(stream_id(1), 1, &["one"]));
    frozen.wait_held(server.pid(), libc::SYS_fdatasync);
    let mut newer = Session::connect(setup.address(0));
    newer.write(&hello(stream_id(1)));
    // The older connection's batch is refused once the newer one's hello has been read; the newer connection then waits for the disk.
    let refusal = match older.next_while_writing(&batch(stream_id(1), 1, &["one"])) {
        Answer::Refused(refusal) => refusal,
        other => panic!("{other:?}"),
    };
    assert_eq!(refusal.code, RefusalCode::TakenOver, "{refusal}");
    server.signal(libc::SIGTERM);
    assert_eq!(newer.refused("a hello at a stop").code, RefusalCode::ShuttingDown);
    drop(frozen);
    assert_eq!(server.wait_end(), Some(0), "{}", setup.log());
}
