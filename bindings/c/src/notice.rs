//! Notices: changes of a connection, as C gets them.

use std::ffi::{CString, c_char, c_void};

/// What a notice is about.
#[repr(i32)]
pub enum NoticeKind {
    /// A server has welcomed the sender.
    Connected = 0,
    /// A server does not answer, or its connection broke. The sender tries it again, or the next server.
    Unreachable = 1,
    /// A server will never take the messages of this sender.
    Ended = 2,
    /// Messages that are not acknowledged are sent as another stream, because the numbers of the current one cannot be trusted.
    NewStream = 3,
    /// A server has lost messages that it had acknowledged; or the sender gives up messages that no server would take, or that its
    /// spool does not have any more.
    Lost = 4,
}

/// A change of a connection; valid during the call.
#[repr(C)]
pub struct Notice {
    /// A bbq_notice_kind. Ignore a kind that you do not know.
    pub kind: i32,
    /// Address of the server.
    pub server: *const c_char,
    /// What happened; may be empty.
    pub why: *const c_char,
    /// Messages that are lost; 0 for other kinds.
    pub records: u64,
}

/// Called with each notice.
pub type NoticeCallback = Option<unsafe extern "C" fn(notice: *const Notice, user: *mut c_void)>;
/// Frees the `user` pointer of a callback.
pub type ReleaseCallback = Option<unsafe extern "C" fn(user: *mut c_void)>;

/// The `user` pointer of a callback, released when nothing can call the callback any more.
pub(crate) struct UserData {
    pointer: *mut c_void,
    release: ReleaseCallback,
}

// SAFETY: the caller of `new` promises that the callbacks may be called with the pointer from any thread.
unsafe impl Send for UserData {}
// SAFETY: as above.
unsafe impl Sync for UserData {}

impl UserData {
    /// # Safety
    /// `release` may be called with the pointer, once, from any thread.
    pub(crate) unsafe fn new(pointer: *mut c_void, release: ReleaseCallback) -> UserData {
        UserData { pointer, release }
    }

    /// # Safety
    /// `callback` may be called with the pointer from any thread.
    pub(crate) unsafe fn call(
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
        // Only the name of a server could have a zero byte, and no resolver takes such a name.
        let server = CString::new(server.as_str()).unwrap_or_default();
        let why = CString::new(why).unwrap_or_default();
        let notice = Notice { kind: kind as i32, server: server.as_ptr(), why: why.as_ptr(), records: lost };
        // SAFETY: this function has the same contract; the notice lives during the call.
        unsafe { callback(&raw const notice, self.pointer) };
    }
}

impl Drop for UserData {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: the caller of `new` allows one call, and this is the only one.
            unsafe { release(self.pointer) };
        }
    }
}
