"""The lowering to plain aten calls: runs where Inductor cannot, and serves as the reference."""

from lowtide.lower.aten.compile import AtenArtifact, compile_with_aten

__all__ = ["AtenArtifact", "compile_with_aten"]
