//! Another program that joins a listener's address with `SO_REUSEPORT`. It needs no privilege but the same user.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Arguments: tcp or udp, host, port. Then a word per line: `first` gives all new connections to the group's first socket (a
/// classic BPF program that always returns 0), `hash` undoes that. The program ends with its standard input. Socket options are
/// those of asm-generic/socket.h, and a filter is `struct sock_fprog` of linux/filter.h.
const PROGRAM: &str = "
import ctypes, socket, struct, sys
kind = {'tcp': socket.SOCK_STREAM, 'udp': socket.SOCK_DGRAM}[sys.argv[1]]
s = socket.socket(socket.AF_INET, kind)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
s.bind((sys.argv[2], int(sys.argv[3])))
if kind == socket.SOCK_STREAM: s.listen(16)
SO_ATTACH_REUSEPORT_CBPF, SO_DETACH_REUSEPORT_BPF = 51, 68
return_0 = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0))
print('joined', flush=True)
for line in sys.stdin:
    if line == 'first\\n':
        program = struct.pack('HL', 1, ctypes.addressof(return_0))
        s.setsockopt(socket.SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, program)
    else:
        s.setsockopt(socket.SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, struct.pack('i', 0))
    print('done', flush=True)
";

pub struct Stranger {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Stranger {
    /// Joins, and has joined when this returns.
    pub fn joins(transport: &str, address: SocketAddr) -> Stranger {
        let mut child = Command::new("python3")
            .args(["-c", PROGRAM, transport, &address.ip().to_string(), &address.port().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 is installed");
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().expect("piped"));
        let mut stranger = Stranger { child, stdin, stdout: BufReader::new(stdout) };
        stranger.heard("joined");
        stranger
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// New connections go to the group's first socket only, or by the kernel's hash again.
    pub fn steers(&mut self, word: &str) {
        writeln!(self.stdin.as_mut().expect("it lives"), "{word}").expect("it reads");
        self.heard("done");
    }

    /// Its socket is closed when this returns.
    pub fn leaves(mut self) {
        self.end();
    }

    fn heard(&mut self, wanted: &str) {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("it says something");
        assert_eq!(line.trim_end(), wanted);
    }

    fn end(&mut self) {
        drop(self.stdin.take());
        // Has ended, or ends now.
        let _ended = self.child.wait();
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.end();
    }
}
