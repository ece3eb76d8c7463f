"""Pages in which an environment and its policies run in a browser, as WebAssembly."""
