"""What each call needs of its key. A method that does not stand here is refused to everybody."""

from enum import Enum
from typing import Final

PACKAGE: Final = "/precall.v1."


class Need(Enum):
    """The least a key must be good for."""

    KEY = "any key"
    READ = "a tenant's key"
    WRITE = "a tenant's key with the role write"
    MANAGE_KEYS = "an admin key, of the tenant or of the server"
    MANAGE_SERVER = "an admin key of the server"


NEEDS: Final[dict[str, Need]] = {
    "EmbeddingService/Embed": Need.READ,
    "EmbeddingService/Rerank": Need.READ,
    "EmbeddingService/GetModel": Need.KEY,
    "EmbeddingService/GetClientEncoder": Need.KEY,
    "MemoryService/WriteMemories": Need.WRITE,
    "MemoryService/GetMemories": Need.READ,
    "MemoryService/ListMemories": Need.READ,
    "MemoryService/GetHistory": Need.READ,
    "MemoryService/DeleteMemories": Need.WRITE,
    "MemoryService/ForgetScope": Need.WRITE,
    "MemoryService/ForgetSource": Need.WRITE,
    "RetrievalService/Search": Need.READ,
    "AnticipationService/Watch": Need.READ,
    "AnticipationService/OpenSession": Need.READ,
    "AnticipationService/ObserveTurn": Need.READ,
    "AnticipationService/CloseSession": Need.READ,
    "AnticipationService/RenewLease": Need.READ,
    "AnticipationService/ReportReads": Need.READ,
    "AdminService/CreateTenant": Need.MANAGE_SERVER,
    "AdminService/GetTenant": Need.MANAGE_KEYS,
    "AdminService/ListTenants": Need.MANAGE_SERVER,
    "AdminService/DeleteTenant": Need.MANAGE_SERVER,
    "AdminService/CreateKey": Need.MANAGE_KEYS,
    "AdminService/ListKeys": Need.MANAGE_KEYS,
    "AdminService/RevokeKey": Need.MANAGE_KEYS,
    "AdminService/BackUpTenant": Need.MANAGE_SERVER,
    "AdminService/StartMigration": Need.MANAGE_SERVER,
    "AdminService/GetMigration": Need.MANAGE_SERVER,
    "AdminService/EndMigration": Need.MANAGE_SERVER,
}
