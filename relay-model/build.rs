//! Compiles the crate anew when a migration is added: the macro that embeds them notices changed
//! files by itself, but not a new folder.

#[expect(
    clippy::print_stdout,
    reason = "this is how a build script talks to cargo"
)]
fn main() {
    println!("cargo::rerun-if-changed=../migrations");
}
