//! Messages as devices and programs send them, after what their makers document. If these fail, a field of a message has the value of
//! another one, or is missing although it can be read.

use chrono::Datelike as _;
use serde_json::{Value, json};

fn read(message: &[u8]) -> Value {
    serde_json::to_value(super::read(message)).unwrap()
}

/// Checks the fields of a message, but for facility, severity and timestamp.
fn assert_fields(message: &str, fields: &Value) {
    let mut found = read(message.as_bytes());
    for key in ["facility", "severity", "timestamp"] {
        found.as_object_mut().unwrap().remove(key);
    }
    assert_eq!(found, *fields, "{message}");
}

#[test]
fn messages_with_a_host() {
    for (message, fields) in [
        (
            "<34>Oct 11 22:14:15 mymachine su: 'su root' failed for lonvick on /dev/pts/8",
            json!({"hostname": "mymachine", "appname": "su", "msg": "'su root' failed for lonvick on /dev/pts/8"}),
        ),
        (
            "<22>Oct  1 22:14:15 mail postfix/smtpd[1234]: connect from unknown",
            json!({"hostname": "mail", "appname": "postfix/smtpd", "procid": "1234", "msg": "connect from unknown"}),
        ),
        (
            "<190>Oct 11 22:14:15 web-1 nginx: 192.0.2.1 - - \"GET / HTTP/1.1\"",
            json!({"hostname": "web-1", "appname": "nginx", "msg": "192.0.2.1 - - \"GET / HTTP/1.1\""}),
        ),
        (
            "<13>2026-10-11T22:14:15.003+02:00 2001:db8::1 (sd-pam)[77]: text",
            json!({"hostname": "2001:db8::1", "appname": "(sd-pam)", "procid": "77", "msg": "text"}),
        ),
        // ESXi.
        (
            "<166>2026-10-11T22:14:15.003Z esx01.example.com Hostd: info hostd[2100] [Originator@6876] ready",
            json!({"hostname": "esx01.example.com", "appname": "Hostd", "msg": "info hostd[2100] [Originator@6876] ready"}),
        ),
        // A switch whose name of the module stands behind a number, and a firewall without a tag.
        (
            "<14>Oct 11 22:14:15 192.0.2.7 00076 ports: port 1 is now on-line",
            json!({"hostname": "192.0.2.7", "msg": "00076 ports: port 1 is now on-line"}),
        ),
        (
            "<14>Oct 11 22:14:15 PA-220 1,2026/10/11 22:14:15,0123,TRAFFIC,end",
            json!({"hostname": "PA-220", "msg": "1,2026/10/11 22:14:15,0123,TRAFFIC,end"}),
        ),
        // JunOS.
        (
            "<28>Oct 11 22:14:15 router1 mgd[4153]: UI_DBASE_LOGOUT_EVENT: User 'user' exiting",
            json!({"hostname": "router1", "appname": "mgd", "procid": "4153", "msg": "UI_DBASE_LOGOUT_EVENT: User 'user' exiting"}),
        ),
        (
            "<28>Oct 11 22:14:15.123 router1 rpd[1]: %DAEMON-4-RPD_BGP: text",
            json!({"hostname": "router1", "appname": "rpd", "procid": "1", "msg": "%DAEMON-4-RPD_BGP: text"}),
        ),
    ] {
        assert_fields(message, &fields);
    }
}

#[test]
fn a_local_tag_is_no_host() {
    for (message, fields) in [
        ("<13>Oct 11 22:14:15 root: from logger -u", json!({"appname": "root", "msg": "from logger -u"})),
        ("<6>Oct 11 22:14:15 kernel: [ 1.2] usb 1-1", json!({"appname": "kernel", "msg": "[ 1.2] usb 1-1"})),
        ("<190>Oct 11 22:14:15 nginx: GET /", json!({"appname": "nginx", "msg": "GET /"})),
        (
            "<78>Oct 11 22:14:15 CRON[77]: (root) CMD (true)",
            json!({"appname": "CRON", "procid": "77", "msg": "(root) CMD (true)"}),
        ),
        (
            "<85>Oct 11 22:14:15 sudo:    root : TTY=pts/0",
            json!({"appname": "sudo", "msg": "root : TTY=pts/0"}),
        ),
        (
            "<13>Oct 11 22:14:15 last message repeated 3 times",
            json!({"msg": "last message repeated 3 times"}),
        ),
        // Python's SysLogHandler with ident="pyapp: ", which ends its messages with a zero byte, and without an ident.
        ("<14>pyapp: hello\0", json!({"appname": "pyapp", "msg": "hello"})),
        ("<14>hello there\0", json!({"msg": "hello there"})),
        (
            "<14>pyapp: 2026-10-11T22:14:15Z hello",
            json!({"appname": "pyapp", "msg": "2026-10-11T22:14:15Z hello"}),
        ),
        ("<14>pyapp[12]: hello", json!({"appname": "pyapp", "procid": "12", "msg": "hello"})),
    ] {
        assert_fields(message, &fields);
    }
}

#[test]
fn routers_write_numbers_marks_and_zones() {
    let tag = |tag: &str| json!({"appname": tag, "msg": "text"});
    let with_host = |host: &str, tag: &str| json!({"hostname": host, "appname": tag, "msg": "text"});
    for (message, fields) in [
        ("<189>29: *Mar  1 18:46:11: %SYS-5-CONFIG_I: text", tag("%SYS-5-CONFIG_I")),
        ("<187>123: Oct 11 22:14:15.123: %LINK-3-UPDOWN: text", tag("%LINK-3-UPDOWN")),
        (
            "<189>29: router1: .Mar  1 18:46:11.000 UTC: %SYS-5-CONFIG_I: text",
            with_host("router1", "%SYS-5-CONFIG_I"),
        ),
        ("<189>: 2026 Oct 11 22:14:15 UTC: %DAEMON-3-SYSTEM_MSG: text", tag("%DAEMON-3-SYSTEM_MSG")),
        ("<166>Oct 11 2026 22:14:15 fw1 : %ASA-6-302013: text", with_host("fw1", "%ASA-6-302013")),
        ("<166>Oct 11 2026 22:14:15: %ASA-6-302013: text", tag("%ASA-6-302013")),
        ("<166>%ASA-6-302013: text", tag("%ASA-6-302013")),
    ] {
        assert_fields(message, &fields);
    }
    let timestamp = |message: &str| read(message.as_bytes())["timestamp"].clone();
    assert_eq!(timestamp("<189>: 2026 Oct 11 22:14:15 UTC: %A-1-B: x"), "2026-10-11T22:14:15+00:00");
    // Nobody knows which zone CET is for this router.
    assert_eq!(timestamp("<189>1: Oct 11 22:14:15 CET: %A-1-B: x"), Value::Null);
    let local = timestamp("<189>29: *Oct 11 22:14:15.25: %A-1-B: x");
    assert!(local.as_str().unwrap().contains("-10-11T22:14:15.250"), "{local}");
}

#[test]
fn rfc_5424_and_what_is_nearly_that() {
    let message = "<165>1 2026-10-11T22:14:15.003Z router1 mgd 3046 UI_EVENT [junos@2636.1.1.1.2.18 username=\"user\"] \u{feff}text";
    let expected = json!({
        "facility": "local4", "severity": "notice", "timestamp": "2026-10-11T22:14:15.003+00:00", "hostname": "router1",
        "appname": "mgd", "procid": "3046", "msgid": "UI_EVENT",
        "structured_data": {"junos@2636.1.1.1.2.18": {"username": "user"}}, "msg": "text",
    });
    assert_eq!(read(message.as_bytes()), expected);
    // Data that are not valid stay with the text, and the other fields are read.
    let broken = "<165>1 2026-10-11T22:14:15Z - app - - [broken text";
    let expected = json!({
        "facility": "local4", "severity": "notice", "timestamp": "2026-10-11T22:14:15+00:00", "appname": "app",
        "msg": "[broken text",
    });
    assert_eq!(read(broken.as_bytes()), expected);
    for procid in ["0012", "-7", "99999999999", "worker-3"] {
        let message = format!("<165>1 2026-10-11T22:14:15Z host app {procid} - - text");
        assert_fields(
            &message,
            &json!({"hostname": "host", "appname": "app", "procid": procid, "msg": "text"}),
        );
    }
}

#[test]
fn what_is_not_utf_8_keeps_the_fields_of_its_header() {
    let expected =
        json!({"facility": "auth", "severity": "crit", "hostname": "host", "appname": "app", "procid": "7"});
    let mut found = read(b"<34>Oct 11 22:14:15 host app[7]: caf\xe9");
    assert!(found.as_object_mut().unwrap().remove("timestamp").is_some());
    assert_eq!(found, expected);
    let found = read(b"<34>1 2026-10-11T22:14:15Z h\xe9 app - - [a b=\"\xe9\" c=\"d\"] text");
    assert_eq!(
        (&found["hostname"], &found["appname"], &found["msg"]),
        (&Value::Null, &json!("app"), &json!("text"))
    );
    assert_eq!(found["structured_data"], json!({"a": {"c": "d"}}));
}

#[test]
fn what_has_no_header_is_the_message() {
    for message in [
        "",
        " ",
        "<",
        "<>",
        "<34",
        "<192>text",
        "<+1>text",
        "<0034>text",
        "text: without a priority",
        "Oct",
        "Oct 11",
        "Oct 32 22:14:15 host app: text",
    ] {
        assert_eq!(read(message.as_bytes()), json!({"msg": message}), "{message}");
    }
    for (message, rest) in [
        ("<13>", ""),
        ("<13>date=2026-10-11 time=22:14:15 devname=\"fw\"", "date=2026-10-11 time=22:14:15 devname=\"fw\""),
        ("<13>{\"json\": 1}", "{\"json\": 1}"),
        ("<13>http://example: text", "http://example: text"),
        ("<13>Feb 30 22:14:15 x", "Feb 30 22:14:15 x"),
        ("<13>1", "1"),
    ] {
        assert_fields(message, &json!({"msg": rest}));
    }
}

#[test]
fn no_message_makes_it_panic() {
    let samples = [
        "<189>29: router1: *Mar  1 18:46:11.000 UTC: %SYS-5-CONFIG_I: text",
        "<165>1 2026-10-11T22:14:15.003Z h a 1 I [a b=\"c\"] \u{e9}",
        "<34>Oct 11 2026 22:14:15 h\u{f6}st \u{e4}pp[\u{e9}]: \u{fc}",
    ];
    for sample in samples.map(str::as_bytes) {
        for cut in 0..sample.len() {
            let _read = super::read(&sample[..cut]);
            let _read = super::read(&sample[cut..]);
            for byte in [0, b' ', b':', b'[', 0xff] {
                let mut changed = sample.to_vec();
                changed[cut] = byte;
                let _read = super::read(&changed);
            }
        }
    }
}

#[test]
fn a_time_without_a_year_is_of_this_year() {
    let found = read(b"<34>Jan  1 00:00:00 host app: text");
    let year = chrono::Utc::now().year().to_string();
    assert!(found["timestamp"].as_str().is_some_and(|time| time.starts_with(&year)), "{found}");
}
