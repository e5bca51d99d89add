"""Generated protobuf code of version 1; written by `make proto`, never by hand."""
