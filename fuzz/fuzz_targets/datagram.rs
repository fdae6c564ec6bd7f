//! Any datagram is messages of bytes that stand in it, within the limit. The first two bytes are the limit and the rules.
#![no_main]

use bbq_wire::SourceKind;
use bbq_wire::framing::{Frame, FramingRules, OnIncomplete, OnOversize, datagram};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let [limit, choices, input @ ..] = data else { return };
    let rules = FramingRules {
        message_bytes_max: u32::from(*limit),
        on_oversize: if choices & 1 == 0 { OnOversize::Refuse } else { OnOversize::Cut },
        on_incomplete: if choices & 2 == 0 { OnIncomplete::Drop } else { OnIncomplete::Keep },
    };
    for source in [SourceKind::Lines, SourceKind::Syslog, SourceKind::Whole] {
        let mut bytes = 0;
        datagram(source, &rules, input, &mut |frame| {
            if let Frame::Message(message) = frame {
                assert!(message.len() <= usize::from(*limit));
                bytes += message.len();
            }
        });
        assert!(bytes <= input.len());
    }
});
