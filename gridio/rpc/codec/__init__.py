"""Values to protobuf messages and back; generated types stop here."""
