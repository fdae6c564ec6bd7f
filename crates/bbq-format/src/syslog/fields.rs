//! What is known of the header of a syslog message.

use serde::Serialize;
use serde_json::{Map, Value};

/// What stands in a text for bytes that are not UTF-8.
const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;

/// The header of a syslog message, named as RFC 5424 section 6 does, in small letters.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct SyslogFields {
    /// The word for the facility, as `logger` has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub facility: Option<&'static str>,
    /// The word for the severity, as `logger` has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<&'static str>,
    /// TIMESTAMP, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    /// HOSTNAME.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// APP-NAME, or the program in front of a tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub appname: Option<String>,
    /// PROCID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub procid: Option<String>,
    /// MSGID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub msgid: Option<String>,
    /// By the name of an element, its parameters; one that comes more than once is an array.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub structured_data: Map<String, Value>,
    /// The message without its header; `None` if it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub msg: Option<String>,
}

impl SyslogFields {
    /// Leaves out what was not UTF-8.
    pub(super) fn leave_out_damaged(&mut self) {
        let is_damaged = |text: &String| text.contains(REPLACEMENT);
        let fields =
            [&mut self.hostname, &mut self.appname, &mut self.procid, &mut self.msgid, &mut self.msg];
        for field in fields {
            field.take_if(|text| is_damaged(text));
        }
        let is_sound = |text: &str| !text.contains(REPLACEMENT);
        let is_sound_value = |value: &Value| value.as_str().is_none_or(is_sound);
        self.structured_data.retain(|id, element| {
            if let Value::Object(params) = element {
                params.retain(|name, value| {
                    if let Value::Array(values) = value {
                        values.retain(is_sound_value);
                    }
                    is_sound(name) && is_sound_value(value)
                });
            }
            is_sound(id)
        });
    }
}
