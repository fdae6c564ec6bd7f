//! Changes of a connection, as C hears of them.

use std::ffi::{CString, c_char, c_void};

/// What a notice is about.
#[repr(i32)]
pub enum NoticeKind {
    /// A server has welcomed the sender.
    Connected = 0,
    /// A server does not answer, or broke off; it or the next is tried.
    Unreachable = 1,
    /// A server will never take what this sender has.
    Ended = 2,
    /// What is not acknowledged is sent with the numbers of a new stream: those of the present one cannot be trusted.
    NewStream = 3,
    /// A server has lost messages that it had acknowledged, or the sender gives up what no server would take.
    Lost = 4,
}

/// A change of a connection; valid during the call.
#[repr(C)]
pub struct Notice {
    /// A bbq_notice_kind; ignore those that you do not know.
    pub kind: i32,
    /// Which server.
    pub server: *const c_char,
    /// What happened; empty when there is nothing to say.
    pub why: *const c_char,
    /// So many messages are lost; 0 for other kinds.
    pub records: u64,
}

/// Hears of notices.
pub type NoticeCallback = Option<unsafe extern "C" fn(notice: *const Notice, user: *mut c_void)>;
/// Frees what a callback was given.
pub type ReleaseCallback = Option<unsafe extern "C" fn(user: *mut c_void)>;

/// What a callback is given, until nobody can call it any more.
pub(crate) struct User {
    pointer: *mut c_void,
    release: ReleaseCallback,
}

// SAFETY: who gave the pointer has promised that the callbacks may be called with it from any thread.
unsafe impl Send for User {}
// SAFETY: as above.
unsafe impl Sync for User {}

impl User {
    /// # Safety
    /// `release` may be called with the pointer, once, from any thread.
    pub(crate) unsafe fn new(pointer: *mut c_void, release: ReleaseCallback) -> User {
        User { pointer, release }
    }

    /// # Safety
    /// `callback` may be called with the pointer from any thread.
    pub(crate) unsafe fn tell(
        &self,
        callback: unsafe extern "C" fn(*const Notice, *mut c_void),
        notice: &bbq_client::Notice,
    ) {
        let mut lost = 0;
        let (kind, server, why) = match notice {
            bbq_client::Notice::Connected { server } => (NoticeKind::Connected, server, ""),
            bbq_client::Notice::Unreachable { server, why } => {
                (NoticeKind::Unreachable, server, why.as_str())
            }
            bbq_client::Notice::Ended { server, why } => (NoticeKind::Ended, server, why.as_str()),
            bbq_client::Notice::NewStream { server, why } => (NoticeKind::NewStream, server, why.as_str()),
            bbq_client::Notice::Lost { server, records, why } => {
                lost = *records;
                (NoticeKind::Lost, server, why.as_str())
            }
            _ => return,
        };
        // A zero byte can come from nowhere but a server's name that no resolver takes.
        let server = CString::new(server.as_str()).unwrap_or_default();
        let why = CString::new(why).unwrap_or_default();
        let notice = Notice { kind: kind as i32, server: server.as_ptr(), why: why.as_ptr(), records: lost };
        // SAFETY: the caller's promise is this function's; the notice lives during the call.
        unsafe { callback(&raw const notice, self.pointer) };
    }
}

impl Drop for User {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: promised when it was made; this is the only time.
            unsafe { release(self.pointer) };
        }
    }
}
