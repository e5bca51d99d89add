"""Generated protobuf code; written by `make proto` from `proto/gridwire/`, never by hand."""
