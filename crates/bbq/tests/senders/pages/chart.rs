//! The Helm chart, and the manifests of the page on Kubernetes: Helm renders the chart, each object is one that Kubernetes knows, and bbq
//! serves with the configurations in them.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::page::{blocks, put};
use super::yaml;
use crate::support::{Setup, free_ports, run};

/// The oldest version of Chart.yaml, and one that is newer than all that are in use.
const VERSIONS: [&str; 2] = ["1.25", "1.37"];
/// Reads documents from its input, and judges each by the schemas of a version of Kubernetes.
const SCRIPT: &str = "\
import sys, yaml, kubernetes_validate
for document in yaml.safe_load_all(sys.stdin):
    kubernetes_validate.validate(document, sys.argv[1], strict=True)
";

/// What `cargo xtask test` puts into target (`xtask/src/kubernetes.rs`).
fn tool(path: &str) -> PathBuf {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let tool = target.parent().expect("target/tmp is in target").join(path);
    assert!(tool.exists(), "there is no {}; `cargo xtask test` provides it", tool.display());
    tool
}

/// Helm with the chart.
fn helm(task: &[&str], settings: &[&str]) -> Output {
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/helm/bbq");
    let settings = settings.iter().flat_map(|setting| ["--set", setting]);
    // Where it finds no configuration of somebody.
    let nowhere = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(tool("helm/helm"));
    command.args(task).arg(chart).args(["--namespace", "logs", "--kube-version", "1.37.0"]).args(settings);
    command.env("HOME", nowhere.path()).stdin(Stdio::null());
    command.output().expect("helm runs")
}

/// The objects that the chart makes of these settings.
fn rendered(settings: &[&str]) -> String {
    let output = helm(&["template", "rel"], settings);
    assert!(output.status.success(), "{settings:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Every object is what Kubernetes takes, without an unknown key.
fn assert_known(text: &str) {
    for version in VERSIONS {
        run(Command::new(tool("kubernetes/bin/python")).args(["-c", SCRIPT, version]), text.as_bytes());
    }
}

fn object<'a>(documents: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let is_it = |document: &&Value| document["kind"] == kind && document["metadata"]["name"] == name;
    documents.iter().find(is_it).unwrap_or_else(|| panic!("there is no {kind} {name}"))
}

#[test]
fn kubernetes_knows_every_object_of_the_chart_and_of_the_page() {
    let lint = helm(&["lint", "--strict"], &[]);
    assert!(lint.status.success(), "{}", String::from_utf8_lossy(&lint.stdout));
    for settings in [
        &[][..],
        &["centre.enabled=false", "agent.centreAddress=logs.example:7700"],
        &["agent.enabled=false", "centre.storage.className=fast", "imagePullSecrets[0]=registry"],
        &[
            "centre.service.type=LoadBalancer",
            "centre.service.annotations.a=b",
            "centre.nodeSelector.disk=ssd",
        ],
        &["agent.logPaths[0]=/var/log", "agent.logPaths[1]=/var/lib/docker/containers", "image.tag=main"],
    ] {
        let text = rendered(settings);
        assert_known(&text);
        assert!(text.contains("kind: "), "{settings:?}");
    }
    // The exporter of the page belongs to another program, and the patch is a part of an object.
    let manifests: Vec<String> =
        blocks("Kubernetes", "yaml").into_iter().filter(|block| block.starts_with("apiVersion:")).collect();
    assert_eq!(manifests.len(), 2);
    manifests.iter().for_each(|manifest| assert_known(manifest));
}

#[test]
fn a_wrong_value_is_refused_by_its_name() {
    for (setting, word) in [
        ("centre.prots=1", "prots"),
        ("centre.ports[0].name=agents", "/centre/ports"),
        ("centre.ports[0].port=70000", "/centre/ports/0/port"),
        ("centre.storage.size=much", "/centre/storage/size"),
        ("centre.config=listen", "/centre/config"),
        ("agent.hostPath=data", "/agent/hostPath"),
        ("agent.centreAddress=logs.example", "/agent/centreAddress"),
        ("agent.terminationGracePeriodSeconds=0", "/agent/terminationGracePeriodSeconds"),
        ("secretName=", "/secretName"),
        ("centre.enabled=false", "agent.centreAddress"),
    ] {
        let output = helm(&["template", "rel"], &[setting]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(word), "{setting}: {text}");
    }
}

/// A server with the configuration of a ConfigMap, in which some words are replaced.
fn setup(documents: &[Value], name: &str, replaced: &[(&str, &str)]) -> Setup {
    let config = object(documents, "ConfigMap", name)["data"]["bbq.toml"].as_str().expect("a file");
    let mut setup = Setup::new(&[]);
    setup.set_sinks(&[]);
    let directory = setup.path().display().to_string();
    fs::write(setup.path().join("tokens"), "agents 0123456789abcdef relay\n").expect("a file");
    fs::write(setup.path().join("token"), "0123456789abcdef\n").expect("a file");
    let config = put(config, &[("/etc/bbq-secrets", &directory), ("/var/lib/bbq", &directory)]);
    setup.config(&put(&config, replaced))
}

#[test]
fn what_a_container_writes_arrives_at_the_centre() {
    let documents = yaml::documents(&rendered(&[]));
    let ports: Vec<String> = free_ports(4).iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let places = ["7700", "5514", "4317", "4318"].map(|port| format!("0.0.0.0:{port}"));
    let replaced: Vec<(&str, &str)> =
        places.iter().zip(&ports).map(|(from, to)| (from.as_str(), to.as_str())).collect();
    let centre = setup(&documents, "rel-bbq-centre", &replaced);
    let at_centre = centre.start();

    let logs = tempfile::tempdir().expect("a directory");
    let logs = logs.path();
    let line = |message: &str| format!("2026-11-30T10:00:00.000000001Z stdout F {message}\n");
    let file = |pod: &str| logs.join(format!("{pod}_shop_main-{:064x}.log", 7));
    fs::write(file("web-0"), line("an order")).expect("a file");
    fs::write(file("rel-bbq-agent-x7"), line("of the agent itself")).expect("a file");
    let address = "rel-bbq-centre.logs.svc:7700";
    let agent = setup(
        &documents,
        "rel-bbq-agent",
        &[("containers:?", &format!("containers:{}?", logs.display())), (address, &ports[0])],
    );
    let at_agent = agent.start();
    at_agent.wait_delivered(1);
    at_centre.wait_delivered(1);
    let written = fs::read_to_string(centre.path().join("out/messages.json")).expect("the sink's file");
    assert!(written.contains("an order") && written.contains("web-0"), "{written}");
    assert_eq!((at_agent.stop(), at_centre.stop()), (Some(0), Some(0)));

    // Each listener of the centre has a port of the Service, and each path of the configurations is mounted.
    let service = object(&documents, "Service", "rel-bbq-centre");
    let of_service = service["spec"]["ports"].as_array().expect("ports").iter();
    let of_service: Vec<String> = of_service.map(|port| format!("0.0.0.0:{}", port["port"])).collect();
    let config = object(&documents, "ConfigMap", "rel-bbq-centre")["data"]["bbq.toml"].to_string();
    let in_config = config.matches("0.0.0.0:").count();
    assert!(of_service.len() == in_config && of_service.iter().all(|port| config.contains(port)), "{config}");
    for (kind, name) in [("StatefulSet", "rel-bbq-centre"), ("DaemonSet", "rel-bbq-agent")] {
        let pod = &object(&documents, kind, name)["spec"]["template"]["spec"];
        let mounts = pod["containers"][0]["volumeMounts"].to_string();
        for path in ["/etc/bbq", "/etc/bbq-secrets", "/var/lib/bbq"] {
            assert!(mounts.contains(&format!("\"{path}\"")), "{name}: {path} is not in {mounts}");
        }
    }
    let read = bbq_server::config::ReadSpec::parse("containers:").expect("a reader");
    let pod = &object(&documents, "DaemonSet", "rel-bbq-agent")["spec"]["template"]["spec"];
    let mount = pod["containers"][0]["volumeMounts"][3]["mountPath"].as_str().expect("a path");
    assert!(read.glob.starts_with(&format!("{mount}/")), "{} is not below {mount}", read.glob);
}
