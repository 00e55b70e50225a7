//! Compiles the crate anew when a migration is added: the macro that embeds them notices changed
//! files by itself, but not a new folder.

fn main() {
    println!("cargo::rerun-if-changed=../migrations");
}
