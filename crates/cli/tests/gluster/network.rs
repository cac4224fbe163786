//! A bridge in the client's namespaces, and a cable from it to each node.

use crate::mounted::Namespaces;
use crate::shell::ok;

/// Seen by nobody outside, so that every test has the same.
const NET: &str = "10.77.0";

/// The address of a node.
pub fn address(number: usize) -> String {
    format!("{NET}.{number}")
}

/// The client's side: a bridge with an address.
pub fn bridge(client: &Namespaces) {
    ip(client, "link add switch type bridge");
    ip(client, &format!("addr add {NET}.254/24 dev switch"));
    ip(client, "link set switch up");
}

/// A cable from the bridge to a node.
pub fn connect(client: &Namespaces, node: &Namespaces, number: usize) {
    // `ip` asks for a namespace by a process of it, as it is seen by itself: so not from inside.
    let mut link = std::process::Command::new("nsenter");
    link.args(["--target", &client.first().to_string(), "--net", "--", "ip", "link", "add"]);
    link.args([&format!("port{number}"), "type", "veth", "peer", "name", "eth0"]);
    ok(link.args(["netns", &node.first().to_string()]));
    ip(client, &format!("link set port{number} master switch up"));
    ip(node, &format!("addr add {}/24 dev eth0", address(number)));
    ip(node, "link set eth0 up");
}

/// Pulls a node's plug: nobody tells who speaks with it that it is gone.
pub fn cut(client: &Namespaces, number: usize) {
    ip(client, &format!("link set port{number} down"));
}

pub fn mend(client: &Namespaces, number: usize) {
    ip(client, &format!("link set port{number} up"));
}

fn ip(inside: &Namespaces, line: &str) {
    ok(inside.command("ip").args(line.split_whitespace()));
}
