//! If this fails, a container of packaging/Containerfile does not start as its user on a read-only root, or its health check asks another
//! admin than the server has.
//!
//! The image is built by hand here, with the program that is tested: that program and its libraries, nothing else, read-only, and a volume.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::BBQ;

/// Prints what the sink has written. The container has a network of its own, as its ports are fixed.
const RUN: &str = r#"set -eu
ip link set lo up
mount -t tmpfs none "$ROOT"
for library in $(ldd "$BBQ" | grep --only-matching '/[^ ]*'); do install -D "$library" "$ROOT$library"; done
install -D "$BBQ" "$ROOT${SERVER%% *}"
mkdir "$ROOT/proc" "$ROOT/dev" "$ROOT$VOLUME"
mount --rbind /proc "$ROOT/proc"
mount --rbind /dev "$ROOT/dev"
mount -t tmpfs -o mode=755 none "$ROOT$VOLUME"
chown "$OWNER" "$ROOT$VOLUME"
mount -o remount,ro "$ROOT"
if touch "$ROOT/file" 2> /dev/null; then echo "the root is not read-only" >&2; exit 1; fi
chroot $AS "$ROOT" $SERVER &
server=$!
trap 'kill -KILL $server 2> /dev/null || true' EXIT
chroot $AS "$ROOT" ${SERVER%% *} status --wait 60 > /dev/null
chroot $AS "$ROOT" $HEALTH > /dev/null
grep --quiet "^Uid:[[:space:]]*${OWNER%:*}[[:space:]]" "/proc/$server/status"
echo 'a message' | timeout 60 chroot $AS "$ROOT" ${SERVER%% *} send
kill -TERM $server
wait $server
cat "$ROOT$VOLUME/out/messages.log"
"#;

/// The rest of the line of an instruction, with the lines that continue it.
fn instruction(file: &str, word: &str) -> String {
    let joined = file.replace("\\\n", " ");
    let rest = joined.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' ').map(str::to_owned));
    rest.unwrap_or_else(|| panic!("the Containerfile has no {word}"))
}

/// The words of an instruction that is a command, which have no blanks in them.
fn command(file: &str, word: &str) -> String {
    let words: Vec<String> = serde_json::from_str(&instruction(file, word)).expect("an array of words");
    words.join(" ")
}

#[test]
fn the_image_needs_no_rights_and_its_health_check_follows_the_admin() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/Containerfile");
    let file = fs::read_to_string(file).expect("a Containerfile");
    let is_root = Command::new("unshare").args(["--mount", "--net", "true"]).output();
    let is_root = is_root.expect("unshare runs").status.success();
    let user = instruction(&file, "USER");
    assert!(!user.starts_with('0'), "the server must not be root");
    let userspec = format!("--userspec={user}");
    // Without root there is one user in the namespace.
    let (ways, owner, userspec): (&[&str], &str, &str) = match is_root {
        true => (&["--mount", "--net"], &user, &userspec),
        false => (&["--mount", "--net", "--map-root-user"], "0:0", ""),
    };
    let root = tempfile::tempdir().expect("a directory");
    let mut image = Command::new("unshare");
    image.args(ways).args(["sh", "-c", RUN]).env("BBQ", BBQ).env("ROOT", root.path());
    image.env("OWNER", owner).env("AS", userspec).env("VOLUME", instruction(&file, "VOLUME"));
    let server = format!("{} {}", command(&file, "ENTRYPOINT"), command(&file, "CMD"));
    image.env("SERVER", server).env("HEALTH", command(&file, "HEALTHCHECK CMD"));
    let output = image.env("BBQ_ADMIN", "127.0.0.1:7791").output().expect("unshare runs");
    let written = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && written == "a message\n",
        "{written}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
