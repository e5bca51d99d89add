"""The gRPC transport: the only package that sees generated protobuf types.

Messages become domain values on the way in and values become messages on the way out; nothing
else happens here.
"""
